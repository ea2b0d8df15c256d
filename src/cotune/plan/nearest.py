"""Why nothing meets a goal: what binds, by how much, and the three nearest plans.

Each constraint is relaxed alone. Where that is enough, the least value that would do is the quantile, at the confidence
asked for, of what the best config takes. What is said of the nearest plans is the same quantile, never a median.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cotune import progress
from cotune.errors import Infeasible
from cotune.forecast import Learning
from cotune.plan.assess import Assessment, as_long_as_allowed, would_do
from cotune.plan.draws import longest_epochs, runs
from cotune.types import Config, Floats, Forecast, Goal, Ints, Job, ProgressUnit
from cotune.units import duration, number


@dataclass(frozen=True, slots=True)
class Binding:
    """The constraint that binds: in words, by how much of its unit, and what would do instead, if that is known.

    `amounts` is what each config takes (or reaches, negated) at the confidence asked for; the least is nearest.
    `shown` says that what would do was shown by curves as long as it takes.
    """

    constraint: str
    words: str
    by: float | None = None
    unit: str = ""
    relaxed: Goal | None = None
    amounts: Floats | None = None
    shown: bool = True


_MARGINS = (0.0, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # beyond what binds, of a goal that is offered instead


def infeasible(job: Job, found: Assessment) -> Infeasible:
    """Return the error for a goal that no config meets."""
    if not np.isfinite(found.seconds).any():
        return Infeasible("no config can run on these devices; compare workers with the device counts", "devices")
    binding = _binding(job, found)
    rows = _nearest(found, binding.amounts)
    shown = [f"{found.outlook.configs[int(row)]}: {_outcome(job, found, binding, int(row))}" for row in rows]
    asked = f"no config {_asked(job, found)} with confidence {found.goal.confidence:g}"
    return Infeasible(
        f"{asked}; {binding.words}. Nearest: {'; '.join(shown)}",
        binding.constraint,
        tuple(_whole(found, int(row)) for row in rows),
        binding.by,
        binding.unit,
        job=job,
        goal=found.goal,
        relaxed=binding.relaxed,
        shown=binding.shown,
        lines=(asked, binding.words, *shown),
    )


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


def _nearest(found: Assessment, amounts: Floats | None) -> Ints:
    """Return the rows that miss by the least, then the likeliest, of different worker counts where there are many."""
    able = np.flatnonzero(np.isfinite(found.seconds))
    missing = np.zeros(len(found.seconds)) if amounts is None else amounts
    keys = (found.cost[able], excess(found)[able], -found.probability[able], missing[able])
    order = able[np.lexsort(keys)]
    varied = one_of_each(order, found.outlook.configs.workers)
    return varied[:3] if len(varied) >= 3 else order[:3]


def _whole(found: Assessment, row: int) -> Forecast:
    """Return the forecast of a config that does not meet its goal, its cap not below the epochs that it takes."""
    forecast = found.forecast(row)
    needed = 0 if forecast.epochs_needed is None else int(np.ceil(forecast.epochs_needed.high))
    return replace(forecast, epochs=max(forecast.epochs, needed))


def excess(found: Assessment) -> Floats:
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


def _outcome(job: Job, found: Assessment, binding: Binding, row: int) -> str:
    """Return what a config takes or reaches at the confidence asked for, and by how much it misses what was asked."""
    goal, amount = found.goal, math.inf if binding.amounts is None else float(binding.amounts[row])
    if math.isinf(amount):
        return f"met in {found.probability[row]:.2g} of all cases"
    if binding.constraint == "deadline" and goal.deadline is not None:
        return f"{duration(amount)}, {duration(amount - goal.deadline)} late"
    if binding.constraint == "max_cost" and goal.max_cost is not None:
        return f"{number(amount)} {found.unit}, {number(amount - goal.max_cost)} too dear"
    short = found.sign * (goal.target or 0.0) + amount
    reached = f"{job.metric} {-found.sign * amount:.4g}"
    return f"{reached}, {short:.2g} short" if short > 0 else f"{reached}, just short"


def _binding(job: Job, found: Assessment) -> Binding:
    """Return the constraint whose relaxation alone would do."""
    goal = found.goal
    if goal.deadline is not None:
        seconds = _taken(found, replace(goal, deadline=None), by_cost=False)
        if np.isfinite(least := float(seconds.min(initial=np.inf))):
            more = least - goal.deadline
            words = f"the deadline binds: it takes {duration(least)}, {duration(more)} more"
            return Binding("deadline", words, more, "s", _offered(found, deadline=least), seconds)
    if goal.max_cost is not None:
        costs = _taken(found, replace(goal, max_cost=None), by_cost=True)
        if np.isfinite(least := float(costs.min(initial=np.inf))):
            more = least - goal.max_cost
            words = f"the cost binds: it takes {number(least)} {found.unit}, {number(more)} more"
            return Binding("max_cost", words, more, found.unit, _offered(found, max_cost=least), costs)
    if goal.target is not None and found.outlook.learning is not None:
        reached, shown = _reached(found, found.outlook.learning, goal)
        if np.isfinite(reached.max(initial=-np.inf)):
            return _binding_target(job, found, goal.target, reached, shown)
    return Binding("several", f"several constraints bind at once: {_together(job, found)}")


def _binding_target(job: Job, found: Assessment, target: float, reached: Floats, shown: Floats) -> Binding:
    """Return by how much the target is out of reach of what each config reaches.

    The best of many extrapolations is mostly one that is too good: what is offered beyond what was shown only may be.
    """
    best = min(float(reached.max()), found.sign * target)  # between two draws it may seem to be just enough
    short = found.sign * target - best
    level = f"{job.metric} {found.sign * best:.4g}"
    words = f"{level} is the best that can be counted on within {_length(job, found.goal)}"
    by = f"{short:.2g}" if short else "a trifle"
    easier = (found.sign * _rounded(best - share * abs(best), math.floor) for share in _MARGINS)
    offered = (replace(found.goal, target=level) for level in easier)
    relaxed = next((goal for goal in offered if would_do(found, goal)), None)
    sure = relaxed is not None and found.sign * (relaxed.target or 0.0) <= float(shown.max())
    return Binding("target", f"the target binds: {words}, {by} short", short, job.metric, relaxed, -reached, sure)


def _offered(found: Assessment, **least: float) -> Goal | None:
    """Return the goal with a later deadline or a higher cost that would do: the least one, or a little more."""
    ((name, amount),) = least.items()
    more = (_rounded(amount * (1 + share), math.ceil) for share in _MARGINS)
    offered = (replace(found.goal, **{name: value}) for value in more)  # type: ignore[arg-type]
    return next((goal for goal in offered if would_do(found, goal)), None)


def _rounded(amount: float, whole: Callable[[float], int]) -> float:
    """Return an amount with four digits, rounded up or down."""
    step = 10.0 ** (math.floor(math.log10(abs(amount))) - 3) if amount else 1.0
    return float(f"{whole(amount / step) * step:.4g}")


def _length(job: Job, goal: Goal) -> str:
    """Return how long a run may be, in what the job counts; how many steps that are depends on the batch."""
    if job.counting.unit == "steps":
        return "its whole length"
    return progress.words(job, Config.data_parallel(1, 1), goal.max_epochs)


def _together(job: Job, found: Assessment) -> str:
    """Return how far off each constraint is when the others are lifted: relaxing one of them would not do."""
    goal, parts = found.goal, []
    free = replace(goal, deadline=None, max_cost=None)
    learning = as_long_as_allowed(found.learnt, free, found.rate, found.sign)[0].learning
    if goal.target is not None and learning is not None:
        best = float(_reached(found, learning, free)[0].max(initial=-np.inf))
        level = f"{job.metric} {found.sign * best:.4g}"
        parts.append(f"{level} is the best that can be counted on within {_length(job, goal)}")
    able, outlook = np.flatnonzero(np.isfinite(found.rate)), found.outlook
    start = "the first epoch" if job.counting == ProgressUnit() else "the first evaluation"
    first = (outlook.startup + outlook.epoch_seconds + outlook.overhead)[able]
    if goal.deadline is not None:
        parts.append(f"{start} takes {duration(float(first.min()))} of {duration(goal.deadline)}")
    if goal.max_cost is not None:
        least = float((first * found.rate[able]).min())
        parts.append(f"{start} costs {number(least)} of {number(goal.max_cost)} {found.unit}")
    return ", and ".join(parts)


def _taken(found: Assessment, relaxed: Goal, *, by_cost: bool) -> Floats:
    """Return the seconds (or cost) at which each config would meet the relaxed goal, infinite where it would not."""
    least = np.full(len(found.seconds), np.inf)
    outlook, needed, _ = as_long_as_allowed(found.learnt, relaxed, found.rate, found.sign)
    for rows, met, spent in runs(outlook, relaxed, found.rate, needed):
        price = found.rate[rows, None] if by_cost else 1.0
        taken = np.where(met, spent * price, np.inf)
        place = int(np.ceil(relaxed.confidence * taken.shape[1])) - 1
        least[rows] = np.partition(taken, place, axis=1)[:, place]
    return least


def _reached(found: Assessment, learning: Learning, goal: Goal) -> tuple[Floats, Floats]:
    """Return the accuracy (which rises) of each config within a goal's limits, at the confidence asked for.

    The second is that within the epochs that its recipe was shown for too.
    """
    surest = np.maximum.accumulate(learning.surely(goal.confidence), axis=1)
    reached, shown = np.full(len(found.seconds), -np.inf), np.full(len(found.seconds), -np.inf)
    for rows, epochs in longest_epochs(found.outlook, goal, found.rate, goal.confidence):
        recipe = learning.recipe[rows]
        for best, longest in ((reached, epochs), (shown, np.minimum(epochs, learning.told[recipe]))):
            fits = longest > 0
            best[rows[fits]] = surest[recipe[fits], learning.column(recipe[fits], longest[fits])]
    return reached, shown
