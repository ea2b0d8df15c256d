"""Choosing a plan: rank every config by its forecast, search, and say why.

A config is feasible when target, deadline and budget are met together with the
confidence asked for. Among those the cheapest wins (or the fastest, or the one that is
the most accurate with that confidence); ties go to the quicker one, then to fewer workers. A recipe that no run has
trained wins only where it saves a tenth over those that were (`Assessment.ranked_cost`).
What counts is a training from scratch: that a probe was lucky is no property of its config.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from cotune.forecast import Forecaster
from cotune.plan import Rank, Search
from cotune.plan.assess import Assessment, assess
from cotune.plan.nearest import excess, infeasible, one_of_each, search_failed
from cotune.space import Configs, Space
from cotune.types import Cluster, Floats, Goal, Ints, Job, Plan
from cotune.units import counted

Trained = Callable[[Configs], Floats]
RIVALS = 5
_ALIKE = 0.0005  # of a cost, below which a tenth of a per cent shows no difference
LAYOUT_RIVALS, MEASURED_RIVALS = 7, 3  # of a large model: in all, and those that were measured
NEXT_LAYOUTS = 3  # worth measuring, that are told
CANDIDATES = 500  # for them, the best of all
UNLIKE = 64  # of the best layouts, among which the nearest unlike one is looked for


def choose(
    job: Job,
    goal: Goal,
    space: Space,
    cluster: Cluster,
    *,
    forecast: Forecaster,
    search: Search,
    trained: Trained | None = None,
    go_on: bool = False,
    seed: int = 0,
) -> Plan:
    """Return the best plan for a goal, or raise `Infeasible`; `trained` tells how many epochs of configs are done.

    Where no training from scratch is sure enough, a run that may `go_on` from a probe is the next best.
    """
    configs = space.configs()
    done = None if trained is None else trained(configs)
    found = assess(forecast(configs, goal.max_epochs), goal, cluster, job.sign, done)
    return decide(job, space, found, search=search, go_on=go_on, seed=seed)


def decide(job: Job, space: Space, found: Assessment, *, search: Search, go_on: bool = False, seed: int = 0) -> Plan:
    """Return the best plan among configs that are judged already, or raise `Infeasible` with the most probable one."""
    continued = go_on and not found.feasible.any()
    keys = _keys_going_on(found) if continued else _keys(found)
    best = search.search(space, _rank(space, keys), random.Random(seed))
    row = int(space.rows(np.array([best], dtype=np.int64))[0])
    if row < 0 or not np.isfinite(keys[row, 0]):
        if found.feasible.any():
            raise search_failed(found)
        refused = infeasible(job, found)
        if np.isfinite(found.seconds).any():
            refused.facts["plan"] = _most_probable(job, space, found)
        raise refused
    reason = _reason_going_on(found, keys) if continued else _reason(found, keys, row)
    return _plan(job, space, found, keys, row, reason=reason)


def _most_probable(job: Job, space: Space, found: Assessment) -> Plan:
    """Return the plan that is the most likely to meet a goal which none meets with the confidence asked for."""
    keys = np.column_stack([-found.probability, excess(found), found.cost])
    keys[~np.isfinite(found.seconds)] = np.inf
    row = int(np.lexsort(keys.T[::-1])[0])
    able = int(np.isfinite(found.seconds).sum())
    asked = f"the confidence of {found.goal.confidence:g} asked for"
    reason = f"the most probable of {counted(able, 'config')}, below {asked}"
    return _plan(job, space, found, keys, row, reason=reason)


def _plan(job: Job, space: Space, found: Assessment, keys: Floats, row: int, *, reason: str) -> Plan:
    """Return the plan of one config, with its rivals by the same ranking."""
    rivals = _rivals(found, keys, row)
    notes = found.outlook.notes
    if found.outlook.layouts is not None:
        rivals = list(dict.fromkeys([*rivals[:1], *_measured(found, keys, row), *rivals[1:]]))[:LAYOUT_RIVALS]
        order = np.lexsort((found.seconds, keys[:, 0]))
        others = [found.outlook.configs[int(one)] for one in order[:UNLIKE]]
        reason += f". {found.outlook.layouts.why(found.outlook.configs[row], others)}"
        notes += _next_layouts(found, order)
    return Plan(
        forecast=found.forecast(row),
        goal=found.goal,
        reason=reason,
        rivals=tuple(found.forecast(rival) for rival in rivals),
        searched=len(space),
        notes=notes,
        rest=found.rest(row),
        metric=job.metric,
        examples=job.examples,
        counting=job.counting,
    )


def _keys(found: Assessment) -> Floats:
    """Return the ranking of every config; infinite where the goal is not met."""
    cost, seconds, accuracy = found.cost, found.seconds, found.sure_accuracy
    by = {
        "cheap": (found.ranked_cost, seconds),
        "fast": (seconds, cost),
        "accurate": (-accuracy if accuracy is not None else cost, cost),
    }[found.goal.prefer]
    workers = found.outlook.configs.workers.astype(np.float64)
    return np.column_stack([np.where(found.feasible, by[0], np.inf), *by[1:], workers])


def _keys_going_on(found: Assessment) -> Floats:
    """Return the ranking of configs by what is left of them, where a probe has trained a part."""
    seconds, chance, kept = found.left
    cost = seconds * found.rate
    by = (seconds, cost) if found.goal.prefer == "fast" else (cost, seconds)
    workers = found.outlook.configs.workers.astype(np.float64)
    sure = (chance >= found.goal.confidence) & kept
    return np.column_stack([np.where(sure, by[0], np.inf), by[1], found.cost, workers])


def _reason_going_on(found: Assessment, keys: Floats) -> str:
    sure = int(np.isfinite(keys[:, 0]).sum())
    best = {"cheap": "cheapest", "fast": "fastest", "accurate": "cheapest"}[found.goal.prefer]
    among = f"{counted(sure, 'config')} that a probe has trained a part of"
    return f"no training from scratch is sure enough; to go on with this is the {best} of {among}"


def _rank(space: Space, keys: Floats) -> Rank:
    def rank(points: Ints) -> Floats:
        rows = space.rows(points)
        return np.where((rows >= 0)[:, None], keys[rows], np.inf)

    return rank


def _rivals(found: Assessment, keys: Floats, row: int) -> list[int]:
    """Return the second best config, and the best of each other number of workers."""
    order = np.lexsort((found.seconds, -found.probability, keys[:, 0]))
    able = order[np.isfinite(found.seconds[order])]
    workers = found.outlook.configs.workers
    second = [int(rival) for rival in able[:2] if rival != row][:1]
    others = [int(rival) for rival in one_of_each(able, workers) if workers[rival] != workers[row]]
    return list(dict.fromkeys(second + others))[:RIVALS]


def _next_layouts(found: Assessment, best: Ints) -> tuple[str, ...]:
    """Return in words which layouts are worth measuring next, of the best that were not."""
    assert found.outlook.layouts is not None
    open_rows = np.isfinite(found.outlook.epoch_seconds) & (found.outlook.seconds_source != "measured")
    candidates = found.outlook.configs.take(best[open_rows[best]][:CANDIDATES])
    if not len(candidates):
        return ()
    rows = found.outlook.layouts.worth_measuring(candidates, NEXT_LAYOUTS)
    return tuple(f"worth measuring next, 30 steps: {candidates[int(row)]}" for row in rows)


def _measured(found: Assessment, keys: Floats, row: int) -> list[int]:
    """Return the best of the configs that were measured, the first one first."""
    order = np.lexsort((found.seconds, keys[:, 0]))
    known = order[found.outlook.seconds_source[order] == "measured"]
    return [int(one) for one in known if one != row and np.isfinite(found.seconds[one])][:MEASURED_RIVALS]


def _reason(found: Assessment, keys: Floats, row: int) -> str:
    feasible = int(np.count_nonzero(found.feasible))
    best = {"cheap": "the cheapest", "fast": "the fastest", "accurate": "the most accurate"}[found.goal.prefer]
    among = f"{counted(feasible, 'feasible config')} ({len(keys)} in all)"
    if feasible == 1 or found.goal.prefer == "accurate":
        return f"{best} of {among}"
    order = np.lexsort(keys.T[::-1])[:2]
    second = int(order[1]) if order[0] == row else int(order[0])
    spent, what = (found.cost, "costs") if found.goal.prefer == "cheap" else (found.seconds, "takes")
    more = spent[second] / spent[row] - 1
    if abs(more) < _ALIKE:
        alike = "costs as much" if what == "costs" else "takes as long"
        return f"{best} of {among}; the next, {found.outlook.configs[second]}, {alike}"
    if more < 0:
        best, by = f"{best} of those trained", f"{-more:.1%} less, too little for a batch that no run has trained"
        return f"{best}, among {among}; the next, {found.outlook.configs[second]}, {what} {by}"
    return f"{best} of {among}; the next, {found.outlook.configs[second]}, {what} {more:.1%} more"
