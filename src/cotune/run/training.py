"""What a run is: its config and goal, from a plan and what the user says now, and whether it met them.

A flag wins over the plan, and the plan wins over the job file: the goal that was planned
for is the goal that is run. A run that is resumed keeps the goal that it began with.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise

from cotune import progress
from cotune.errors import NotFound, UsageError
from cotune.jobfile.command import takes
from cotune.space import LAYOUT, Space, check_counts
from cotune.types import Config, Goal, Job, Plan, Sample, Stage, Value, axes_of, split_over
from cotune.units import duration, number

SHORT = 0.5  # epochs that may lack where a script's last report comes before its last step
_SAME_GAP = 1e-6  # of the epochs between two evaluations
_SAME_SECONDS = 1e-6  # of a deadline: what rounding leaves of a run that ends with it


def goal_of_run(plan: Plan | None, asked: Goal, flags: Collection[str], begun: Goal | None = None) -> Goal:
    """Return the goal of a run; `asked` is the job file with the flags, `flags` names what was flagged.

    `begun` is the goal of the run that this one goes on from, and wins over the plan. The cap is that
    of either, unless the flags give the run more or less time.
    """
    kept = begun or (replace(plan.goal, max_epochs=plan.epochs) if plan else None)
    if kept is None:
        return asked
    changed = {name: getattr(asked, name) for name in ("target", "deadline", "epochs") if name in flags}
    timed = changed.keys() & {"deadline", "epochs"}
    return replace(kept, **changed, max_epochs=asked.max_epochs if timed else kept.max_epochs)


def config_of_run(
    start: Config | None,
    space: Space,
    device: str,
    *,
    workers: int | None,
    batch_size: int | None,
    axes: dict[str, Value],
    servers: int | None = None,
) -> Config:
    """Return a config (a plan's, or one that ran) with what was given laid over it; a fixed global batch stays."""
    if start is None:
        workers, batch_size = workers or _only(space, "workers"), batch_size or _only(space, "batch_size")
    if start is None and (workers is None or (batch_size is None and space.global_batch is None)):
        raise NotFound("there is no plan: plan first, or give both workers and batch size", remedy="layout")
    base = start or Config.data_parallel(1, 1, device, axes=axes_of(_first_values(space)))
    told = axes.get("accumulate")  # a number of every config, not a name of the user's
    named = dict(base.axes) | {name: value for name, value in axes.items() if name != "accumulate"}
    held = base.servers if servers is None else servers
    chosen = replace(base, stages=(Stage(base.device, workers or base.workers),), servers=held, axes=axes_of(named))
    if told is not None:
        check_counts({"accumulate": told})
        assert isinstance(told, int)
        chosen = replace(chosen, accumulate=told)
    if space.global_batch is None:
        return replace(chosen, batch_size=batch_size or base.batch_size)
    spread = chosen.replicas * chosen.accumulate
    if batch_size and told is None and any(axis.name == "accumulate" for axis in space.axes):
        chosen = replace(chosen, accumulate=max(space.global_batch // max(chosen.replicas * batch_size, 1), 1))
        spread = chosen.replicas * chosen.accumulate
    if not spread:
        raise UsageError(f"{chosen.workers} workers are no whole replicas of {split_over(chosen.axes)} workers each")
    share, rest = divmod(space.global_batch, spread)
    if rest or batch_size not in (None, share):
        wanted = batch_size or f"{space.global_batch / spread:g}"
        each = f"{chosen.workers} workers cannot take {wanted} each"
        raise UsageError(f"the recipe fixes the global batch at {space.global_batch}: {each}")
    return replace(chosen, batch_size=share)


def require_taken(job: Job, axes: Mapping[str, Value]) -> None:
    """Refuse an axis that would change nothing: no value of it reaches the job's command."""
    for name in axes if job.command else ():
        if not takes(job, name):
            raise UsageError(f"axis {name}: the command has no {{{name}}}, and `reads` has no {name}")


def seconds_limit(plan: Plan) -> float:
    """Return what to ask a queue for: one run in ten outlasts the forecast's upper end, few half as much again."""
    return 1.5 * plan.forecast.seconds.high + 60.0


def epochs_elsewhere(plan: Plan | None, goal: Goal) -> int:
    """Return the epochs for a launcher that cannot stop at a target: what nine runs of ten need, up to the cap."""
    needed = plan.forecast.epochs_needed if plan else None
    if needed is None or goal.epochs or goal.target is None or goal.prefer == "accurate":
        return goal.cap
    return max(1, min(goal.cap, math.ceil(needed.high)))


def _only(space: Space, name: str) -> int | None:
    """Return the only value that an axis of counts may take, if it is the only one."""
    values = next((axis.values for axis in space.axes if axis.name == name), ())
    return values[0] if len(values) == 1 and isinstance(values[0], int) else None


def _first_values(space: Space) -> dict[str, Value]:
    """Return the first value of every axis that the user named."""
    return {axis.name: axis.values[0] for axis in space.axes if axis.name not in LAYOUT}


def asks(goal: Goal | None) -> bool:
    """Return whether a goal can be met, and not only be worked off."""
    return goal is not None and any(part is not None for part in (goal.target, goal.deadline, goal.max_cost))


def ended_short(sample: Sample, whole: float) -> bool:
    """Return whether a start that ended by itself trained less than it was told, as far as its reports tell.

    A script that evaluates every 200 of 500 steps reports the 400th last, and has trained them all.
    """
    told = [point.epoch for point in sample.curve]
    known = told if sample.resumed_from else [0.0, *told]
    gap = max((after - before for before, after in pairwise(known)), default=0.0)
    lacking = whole - sample.epochs
    return lacking > SHORT and lacking >= gap * (1 - _SAME_GAP)


def overdue(goal: Goal, seconds: float) -> str | None:
    """Return that a deadline has passed, after so many seconds, if it has."""
    late = goal.deadline is not None and seconds >= goal.deadline
    return f"its deadline of {duration(goal.deadline or 0.0)} has passed" if late else None


def missed(job: Job, goal: Goal, sample: Sample, *, seconds: float, cost: float, unit: str) -> str | None:
    """Return what a finished run missed of its goal, or None."""
    parts = []
    if goal.target is not None and not job.reached(goal.target, sample):
        best = max((job.sign * point.accuracy for point in sample.curve), default=None)
        words = "nothing was reported" if best is None else f"{job.metric} reached {job.sign * best:.4g}"
        parts.append(f"{words}, {goal.target:g} was asked")
    if goal.epochs is not None and ended_short(sample, goal.epochs) and not job.reached(goal.target, sample):
        done = progress.amount(job, sample.config, sample.epochs)
        parts.append(f"it ended by itself after {done:.3g} of {progress.words(job, sample.config, goal.epochs)}")
    if goal.deadline is not None and seconds > goal.deadline * (1 + _SAME_SECONDS):
        parts.append(f"it took {duration(seconds)}, {duration(goal.deadline)} was asked")
    elif parts and (passed := overdue(goal, seconds * (1 + _SAME_SECONDS))) is not None:  # a recording ends there
        parts.append(passed)
    if goal.max_cost is not None and cost > goal.max_cost:
        parts.append(f"it cost {number(cost)} {unit}, {number(goal.max_cost)} was asked")
    return "missed: " + "; ".join(parts) if parts else None
