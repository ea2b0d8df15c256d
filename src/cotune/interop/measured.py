"""What a logged run says of a job: its config, its learning curve and its speed, as a sample.

    epochs   the tool's own count, else a logged `epoch`, else step x global batch / examples
    speed    the slope of time over epochs, as of any start; else the run's seconds over its epochs

Where epochs are whole numbers, the last moment of an epoch is its end; those that begin at
0 are counted from 0. Seconds per epoch hold what a log cannot tell apart: evaluation too,
unless the tool says what that took.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from cotune.errors import NotFound, UsageError, suggestion
from cotune.interop.logged import Logged, Point
from cotune.training_speed import Mark, speed
from cotune.types import Axes, Config, Evaluation, Job, Sample, Terms

_WORKERS = ("workers", "world_size", "num_processes", "n_gpus")
_BATCH = ("batch_size", "per_device_train_batch_size", "train_batch_size", "micro_batch_size")
_EPOCH = re.compile(r"(?:.*/)?epoch", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Hints:
    """What the user says of runs that their logs do not, or say otherwise."""

    metric: str | None = None
    workers: int | None = None
    batch_size: int | None = None
    accumulate: int = 1
    device: str = "cpu"
    axes: Axes = ()
    runs: re.Pattern[str] | None = None
    steps_are_epochs: bool = False
    seconds: float | None = None
    speed_only: bool = False


def measured(job: Job, tool: str, source: str, logged: Logged, asked: Hints) -> Sample:
    """Return a run as a sample of a job; its id is the same whenever the same run is read the same way."""
    config = _config(logged, asked)
    metric = None if asked.speed_only else _metric(job, logged, asked)
    done = epochs_of(job, config, logged, asked)
    points = [(epoch, point) for epoch, point in zip(done, logged.points, strict=True) if epoch is not None]
    told = [(epoch, point) for epoch, point in points if metric is None or metric in point.values]
    timing = _timing(logged, asked, told if len(told) > 1 else points)
    curve: tuple[Evaluation, ...] = ()
    if metric is not None:
        curve = tuple(
            Evaluation(epoch, point.values[metric], timing.at(epoch, point), _others(point, metric))
            for epoch, point in told
        )
    facts = (tool, source, logged.name, job.fingerprint, str(config), config.device)
    return Sample(
        config=config,
        epochs=max((epoch for epoch, _ in points), default=0.0),
        epoch_seconds=timing.pace,
        accuracy=curve[-1].accuracy if curve else None,
        terms=Terms(startup=timing.startup, evaluation=logged.evaluation),
        curve=curve,
        seconds=timing.seconds,
        failure=logged.failure,
        id=hashlib.sha256("\0".join(facts).encode()).hexdigest()[:12],
        started=datetime.fromtimestamp(logged.began, UTC).isoformat() if logged.began else "",
        engine=tool,
        warning=timing.warning if logged.warning is None else logged.warning,
        folder=source,
    )


def _config(logged: Logged, asked: Hints) -> Config:
    named = _named(logged, asked)
    workers = asked.workers or named.get("workers") or _whole(logged.params, _WORKERS)
    batch = asked.batch_size or named.get("batch_size") or _whole(logged.params, _BATCH)
    if workers is None:
        raise _untold(logged, "workers", _WORKERS)
    if batch is None:
        raise _untold(logged, "batch_size", _BATCH)
    return Config.data_parallel(batch, workers, asked.device, accumulate=asked.accumulate, axes=asked.axes)


def _untold(logged: Logged, what: str, names: Sequence[str]) -> NotFound:
    return NotFound(
        f"run {logged.name!r} does not tell its {what.replace('_', ' ')} (none of {', '.join(names)} was logged): "
        f"give it, or a pattern of run names with a group (?P<{what}>...)",
        remedy=f"logged_{what}",
    )


def _named(logged: Logged, asked: Hints) -> dict[str, int]:
    """Return what the run's name says by the pattern."""
    found = asked.runs.search(logged.name) if asked.runs else None
    try:
        return {name: int(text) for name, text in found.groupdict().items() if text} if found else {}
    except ValueError:
        raise UsageError(f"the pattern of run names finds no whole numbers in {logged.name!r}") from None


def _whole(params: Mapping[str, object], names: Sequence[str]) -> int | None:
    """Return the first of some parameters that is a whole number."""
    texts = (str(params[name]) for name in names if name in params)
    return next((int(text) for text in texts if text.isdigit() and int(text) > 0), None)


def _metric(job: Job, logged: Logged, asked: Hints) -> str | None:
    """Return the name under which the job's metric was logged; a run that failed may have none."""
    names = sorted({name for point in logged.points for name in point.values if not _EPOCH.fullmatch(name)})
    wanted = asked.metric or job.metric
    if wanted in names:
        return wanted
    if asked.metric is None and len(names) == 1:
        return names[0]
    if not names and logged.failure:
        return None
    if not names:
        raise NotFound(f"run {logged.name!r} logged no numbers")
    there = f"there are {', '.join(names)}{_near(wanted, names)}"
    raise NotFound(f"run {logged.name!r} has no {wanted!r}; {there}", remedy="metric")


def _near(wanted: str, names: Sequence[str]) -> str:
    """Return the nearest name, also by its last part: 'accuracy' is near 'val/accuracy'."""
    ending = [name for name in names if re.split(r"[/_.]", name)[-1] == wanted]
    return f"; did you mean {ending[0]!r}?" if ending else suggestion(wanted, names)


def epochs_of(job: Job, config: Config, logged: Logged, asked: Hints) -> list[float | None]:
    """Return the epochs that were done at each point, where they can be told."""
    points = logged.points
    if any(point.epoch is not None for point in points):
        return [None if point.epoch is None else point.epoch * job.counting.parts for point in points]
    if asked.steps_are_epochs:
        return _counted([point.step for point in points])
    name = next((name for point in points for name in point.values if _EPOCH.fullmatch(name)), None)
    if name is not None:
        return _filled(points, name)
    if not points:
        return []
    if job.examples is None:
        raise NotFound(
            f"run {logged.name!r} logged no epoch: say how many examples one has, so that steps become epochs, "
            "or that steps are epochs",
            remedy="epochs_of_steps",
        )
    each = config.global_batch / job.examples
    return [None if point.step is None else point.step * each for point in points]


def _filled(points: Sequence[Point], name: str) -> list[float | None]:
    """Return the epochs at all steps from those at which they were logged.

    A whole number holds until its epoch ends, at the last step with it; others are linear in the step.
    """
    known = [point for point in points if name in point.values]
    steps = [point.step or 0.0 for point in known]
    values = [value for value in _counted([point.values[name] for point in known]) if value is not None]
    whole = all(value == int(value) for value in values)

    def at(step: float) -> float | None:
        if not (step <= steps[-1] if whole else steps[0] <= step <= steps[-1]):
            return None
        return values[bisect_left(steps, step)] if whole else float(np.interp(step, steps, values))

    return [at(point.step or 0.0) for point in points]


def _counted(values: Sequence[float | None]) -> list[float | None]:
    """Return epochs counted from 1: whole numbers that begin at 0 are those of epochs that have ended."""
    known = [value for value in values if value is not None]
    shift = 1.0 if known and known[0] == 0 and all(value == int(value) for value in known) else 0.0
    return [None if value is None else value + shift for value in values]


@dataclass(frozen=True, slots=True)
class _Timing:
    """How fast a run was, and when its evaluations were."""

    pace: float | None
    startup: float | None
    seconds: float
    zero: float | None
    evaluation: float
    warning: str | None = None

    def at(self, epoch: float, point: Point) -> float:
        """Return the seconds after the start at which an evaluation was done."""
        if point.at is not None and self.zero is not None:
            return max(point.at - self.zero, 0.0)
        return epoch * ((self.pace or 0.0) + self.evaluation)


def _timing(logged: Logged, asked: Hints, points: Sequence[tuple[float, Point]]) -> _Timing:
    ends = {epoch: point.at for epoch, point in points if point.at is not None}
    last = max((epoch for epoch, _ in points), default=0.0)
    evaluation = logged.evaluation or 0.0
    if len(ends) > 1 or (ends and logged.began is not None):
        begun = logged.began if logged.began is not None else min(ends.values())
        pace, startup = speed([Mark(epoch, at - begun) for epoch, at in sorted(ends.items())], 0.0)
        lead = 0.0 if logged.began is not None else min(ends) * (pace or 0.0)
        whole = (logged.ended or max(ends.values())) - begun + lead
        return _Timing(pace, startup if logged.began is not None else None, whole, begun - lead, evaluation)
    seconds = asked.seconds if asked.seconds is not None else logged.seconds
    if seconds is None or last <= 0:
        untimed = "the log has no times: give the run's seconds" if last > 0 else None
        took = (logged.ended or 0.0) - (logged.began or 0.0) if logged.ended and logged.began else seconds or 0.0
        return _Timing(None, None, took, None, 0.0, untimed)
    evaluations = evaluation * sum(1 for _, point in points if "eval_runtime" in point.values)
    return _Timing((seconds - evaluations) / last, None, seconds, None, evaluation)


def _others(point: Point, metric: str) -> tuple[tuple[str, float], ...]:
    return tuple((name, value) for name, value in sorted(point.values.items()) if name != metric)
