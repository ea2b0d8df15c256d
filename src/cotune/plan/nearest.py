"""Why nothing meets a goal: what binds, by how much, and the three nearest plans.

Each constraint is relaxed alone. Where that is enough, the least value that would do is
the quantile, at the confidence asked for, of what the best config takes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotune.errors import Infeasible
from cotune.forecast import Learning
from cotune.plan.assess import Assessment, longest_epochs, runs
from cotune.types import Floats, Forecast, Goal, Ints, Job
from cotune.units import duration, number


def infeasible(job: Job, found: Assessment) -> Infeasible:
    """Return the error for a goal that no config meets."""
    nearest = tuple(_whole(found, int(row)) for row in _nearest(found))
    if not nearest:
        return Infeasible("no config can run on these devices; compare workers with the device counts", "devices")
    constraint, words, by, unit = _binding(job, found)
    shown = "; ".join(f"{near.config}: {_outcome(job, found.goal, near)}" for near in nearest)
    asked = f"no config {_asked(job, found)} with confidence {found.goal.confidence:g}"
    return Infeasible(f"{asked}; {words}. Nearest: {shown}", constraint, nearest, by, unit, job=job, goal=found.goal)


def search_failed(found: Assessment) -> Infeasible:
    """Return the error of a search that met no feasible config although there are some."""
    count = int(np.count_nonzero(found.feasible))
    return Infeasible(
        f"the search met none of the {count} feasible configs ({len(found.seconds)} in all)",
        "search",
        remedy="grid",
    )


def one_of_each(rows: Ints, group: Ints) -> Ints:
    """Return the first row of every group, in the order of the rows."""
    _, first = np.unique(group[rows], return_index=True)
    return rows[np.sort(first)]


def _nearest(found: Assessment) -> Ints:
    """Return the likeliest row and two that miss by the least, of different worker counts where there are so many."""
    able = np.flatnonzero(np.isfinite(found.seconds))
    order = able[np.lexsort((found.cost[able], _excess(found)[able], -found.probability[able]))]
    varied = one_of_each(order, found.outlook.configs.workers)
    return varied[:3] if len(varied) >= 3 else order[:3]


def _whole(found: Assessment, row: int) -> Forecast:
    """Return the forecast of a config that does not meet its goal, its cap not below the epochs that it takes."""
    forecast = found.forecast(row)
    needed = 0 if forecast.epochs_needed is None else int(np.ceil(forecast.epochs_needed.high))
    return replace(forecast, epochs=max(forecast.epochs, needed))


def _excess(found: Assessment) -> Floats:
    """Return by which share of what was asked each config goes beyond it."""
    goal, excess = found.goal, np.zeros(len(found.seconds))
    if goal.deadline is not None:
        excess += np.maximum(found.seconds / goal.deadline - 1, 0)
    if goal.max_cost is not None:
        excess += np.maximum(found.cost / goal.max_cost - 1, 0)
    if goal.target is not None and (accuracy := found.final_accuracy) is not None:
        excess += np.maximum(found.sign * goal.target - accuracy, 0) / max(abs(goal.target), 1e-12)
    return excess


def _asked(job: Job, found: Assessment) -> str:
    goal = found.goal
    parts = [f"reaches {job.metric} {goal.target:g}"] if goal.target is not None else ["finishes"]
    parts += [f"within {duration(goal.deadline)}"] if goal.deadline is not None else []
    parts += [f"for at most {number(goal.max_cost)} {found.unit}"] if goal.max_cost is not None else []
    return " ".join(parts)


def _outcome(job: Job, goal: Goal, near: Forecast) -> str:
    """Return what a config is expected to reach, and by how much it misses what was asked."""
    reached = f"{job.metric} {near.accuracy.mid:.4g} in " if near.accuracy else ""
    missed = []
    if goal.target is not None and near.accuracy and (short := job.sign * (goal.target - near.accuracy.mid)) > 0:
        missed.append(f"{short:.2g} short")
    if goal.deadline is not None and near.seconds.mid > goal.deadline:
        missed.append(f"{duration(near.seconds.mid - goal.deadline)} late")
    if goal.max_cost is not None and near.cost.mid > goal.max_cost:
        missed.append(f"{number(near.cost.mid - goal.max_cost)} {near.cost.unit} too dear")
    cost = f" for {number(near.cost.mid)} {near.cost.unit}" if goal.max_cost is not None else ""
    chance = f"{near.probability:.0%}" if round(near.probability, 2) < goal.confidence else f"{near.probability:.1%}"
    return f"{reached}{duration(near.seconds.mid)}{cost}, {' and '.join(missed) or f'met in {chance}'}"


def _binding(job: Job, found: Assessment) -> tuple[str, str, float | None, str]:
    """Return the constraint whose relaxation alone would do, in words the amount it takes, and by how much it binds."""
    goal = found.goal
    if goal.deadline is not None:
        least = _least(found, replace(goal, deadline=None), by_cost=False)
        if np.isfinite(least):
            more = least - goal.deadline
            return "deadline", f"the deadline binds: it takes {duration(least)}, {duration(more)} more", more, "s"
    if goal.max_cost is not None:
        least = _least(found, replace(goal, max_cost=None), by_cost=True)
        if np.isfinite(least):
            more = least - goal.max_cost
            words = f"the cost binds: it takes {number(least)} {found.unit}, {number(more)} more"
            return "max_cost", words, more, found.unit
    if goal.target is not None and found.outlook.learning is not None:
        best = _best_accuracy(found, found.outlook.learning, goal)
        if np.isfinite(best):
            best = min(best, found.sign * goal.target)  # between two draws it may seem to be just enough
            short = found.sign * goal.target - best
            level = f"{job.metric} {found.sign * best:.4g}"
            words = f"{level} is the best that can be counted on within {goal.max_epochs} epochs"
            by = f"{short:.2g}" if short else "a trifle"
            return "target", f"the target binds: {words}, {by} short", short, job.metric
    return "several", f"several constraints bind at once: {_together(job, found)}", None, ""


def _together(job: Job, found: Assessment) -> str:
    """Return how far off each constraint is when the others are lifted: relaxing one of them would not do."""
    goal, parts = found.goal, []
    free = replace(goal, deadline=None, max_cost=None)
    if goal.target is not None and found.outlook.learning is not None:
        best = _best_accuracy(found, found.outlook.learning, free)
        parts += [
            f"{job.metric} {found.sign * best:.4g} is the best that can be counted on within {goal.max_epochs} epochs"
        ]
    able, outlook = np.flatnonzero(np.isfinite(found.rate)), found.outlook
    first = (outlook.startup + outlook.epoch_seconds + outlook.overhead)[able]
    if goal.deadline is not None:
        parts.append(f"the first epoch takes {duration(float(first.min()))} of {duration(goal.deadline)}")
    if goal.max_cost is not None:
        least = float((first * found.rate[able]).min())
        parts.append(f"the first epoch costs {number(least)} of {number(goal.max_cost)} {found.unit}")
    return ", and ".join(parts)


def _least(found: Assessment, relaxed: Goal, *, by_cost: bool) -> float:
    """Return the least seconds (or cost) at which some config would meet the relaxed goal."""
    least = np.inf
    for rows, met, spent in runs(found.outlook, relaxed, found.rate, found.needed):
        price = found.rate[rows, None] if by_cost else 1.0
        taken = np.where(met, spent * price, np.inf)
        place = int(np.ceil(relaxed.confidence * taken.shape[1])) - 1
        least = min(least, float(np.partition(taken, place, axis=1)[:, place].min()))
    return least


def _best_accuracy(found: Assessment, learning: Learning, goal: Goal) -> float:
    """Return the best accuracy (which rises) had within a goal's limits, at the confidence asked for."""
    unlucky = float(np.quantile(found.outlook.z_accuracy, 1 - goal.confidence))
    surest, best = np.maximum.accumulate(learning.at(unlucky), axis=1), -np.inf
    for rows, epochs in longest_epochs(found.outlook, goal, found.rate, goal.confidence):
        fits = epochs > 0
        if fits.any():
            column = learning.column(epochs[fits])
            best = max(best, float(surest[learning.recipe[rows[fits]], column].max()))
    return best
