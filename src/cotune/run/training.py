"""What a run is: its config and goal, from a plan and what the user says now, and whether it met them.

A flag wins over the plan, and the plan wins over the job file: the goal that was planned
for is the goal that is run.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from cotune.errors import NotFound, UsageError
from cotune.space import LAYOUT, Space
from cotune.types import Config, Goal, Job, Plan, Sample, Stage, Value, axes_of
from cotune.units import duration, number


def goal_of_run(plan: Plan | None, asked: Goal, flags: Collection[str]) -> Goal:
    """Return the goal of a run; `asked` is the job file with the flags, `flags` names what was flagged.

    The cap is the plan's, unless the flags give the run more or less time.
    """
    if plan is None:
        return asked
    changed = {name: getattr(asked, name) for name in ("target", "deadline", "epochs") if name in flags}
    timed = changed.keys() & {"deadline", "epochs"}
    return replace(plan.goal, **changed, max_epochs=asked.max_epochs if timed else plan.epochs)


def config_of_run(
    plan: Plan | None,
    space: Space,
    device: str,
    *,
    workers: int | None,
    batch_size: int | None,
    axes: dict[str, Value],
    servers: int | None = None,
) -> Config:
    """Return the plan's config with what was given laid over it; a fixed global batch stays fixed."""
    if plan is None and (workers is None or (batch_size is None and space.global_batch is None)):
        raise NotFound("there is no plan: run `cotune plan` first, or give both --workers and --batch-size")
    base = plan.config if plan else Config.data_parallel(1, 1, device, axes=axes_of(_first_values(space)))
    named = dict(base.axes) | axes
    held = base.servers if servers is None else servers
    chosen = replace(base, stages=(Stage(base.device, workers or base.workers),), servers=held, axes=axes_of(named))
    if space.global_batch is None:
        return replace(chosen, batch_size=batch_size or base.batch_size)
    share, rest = divmod(space.global_batch, chosen.workers * chosen.accumulate)
    if rest or batch_size not in (None, share):
        wanted = batch_size or f"{space.global_batch / (chosen.workers * chosen.accumulate):g}"
        each = f"{chosen.workers} workers cannot take {wanted} each"
        raise UsageError(f"the recipe fixes the global batch at {space.global_batch}: {each}")
    return replace(chosen, batch_size=share)


def seconds_limit(plan: Plan) -> float:
    """Return what to ask a queue for: one run in ten outlasts the forecast's upper end, few half as much again."""
    return 1.5 * plan.forecast.seconds.high + 60.0


def _first_values(space: Space) -> dict[str, Value]:
    """Return the first value of every axis that the user named."""
    return {axis.name: axis.values[0] for axis in space.axes if axis.name not in LAYOUT}


def reached(job: Job, target: float | None, sample: Sample) -> bool:
    """Return whether the best evaluation so far meets the target."""
    best = max((job.sign * point.accuracy for point in sample.curve), default=None)
    return target is not None and best is not None and best >= job.sign * target


def seconds_left(job: Job, sample: Sample, *, epochs: int, target: float | None, plan: Plan | None) -> float | None:
    """Return how long a run will still take: to what its plan expects, else to its last epoch.

    None before the first real step, because nothing is known then; 0 once the target is met.
    """
    if sample.epoch_seconds is None:
        return None
    if reached(job, target, sample):
        return 0.0
    each = sample.epoch_seconds + (sample.terms.evaluation or 0.0) + (sample.terms.checkpoint or 0.0)
    expected = float(epochs)
    if plan is not None and plan.forecast.epochs_needed is not None:
        # A run that is past what was expected needs at least one more evaluation.
        expected = min(epochs, max(plan.forecast.epochs_needed.mid, math.floor(sample.epochs) + 1))
    return max(expected - sample.epochs, 0.0) * each


def interval_of(left: float, plan: Plan | None) -> tuple[float, float] | None:
    """Return the interval of the seconds left: as wide, in proportion, as the forecast was."""
    if plan is None or plan.forecast.seconds.mid <= 0 or left <= 0:
        return None
    whole = plan.forecast.seconds
    return left * whole.low / whole.mid, left * whole.high / whole.mid


def missed(job: Job, goal: Goal, sample: Sample, *, seconds: float, cost: float, unit: str) -> str | None:
    """Return what a finished run missed of its goal, or None."""
    parts = []
    if goal.target is not None and not reached(job, goal.target, sample):
        best = max((job.sign * point.accuracy for point in sample.curve), default=None)
        words = "nothing was reported" if best is None else f"{job.metric} reached {job.sign * best:.4g}"
        parts.append(f"{words}, {goal.target:g} was asked")
    if goal.deadline is not None and seconds > goal.deadline:
        parts.append(f"it took {duration(seconds)}, {duration(goal.deadline)} was asked")
    if goal.max_cost is not None and cost > goal.max_cost:
        parts.append(f"it cost {number(cost)} {unit}, {number(goal.max_cost)} was asked")
    return "missed: " + "; ".join(parts) if parts else None
