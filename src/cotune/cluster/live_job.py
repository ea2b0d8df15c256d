"""A job in the live world: what was handed in, the starts that it has made, and how much of it is done.

Work is the share of the whole training, since another global batch may need other epochs:

    done = sum over starts of epochs trained / epochs needed at that start's global batch

A job that is stopped keeps its folder and goes on from its checkpoint; without one it begins anew (`next_start`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cotune.cluster.policy import Active, Submission
from cotune.run.attempt import Growing, Stop
from cotune.types import STOP_GRACE, Failure, Goal, Job, Sample


@dataclass(frozen=True, slots=True)
class Queued:
    """A job that is handed in: what it is, what it asks for, and what is believed of it."""

    job: Job
    goal: Goal
    submission: Submission
    needed: Mapping[int, float]  # epochs that a training takes, by global batch
    spread: float = 0.0  # standard deviation of the logarithm of its seconds
    earlier: tuple[Sample, ...] = ()  # starts of it before it came here; the last left a checkpoint to go on from
    silence: float | None = None  # seconds without a word that are too many
    stop_grace: float = STOP_GRACE
    device: str | None = None  # what its configs call a unit of the cluster, where that is another name
    engine: str | None = None  # by name, where not all have the same
    folder: Path | None = None  # where its files go
    promised: bool = False  # it was admitted before, and is not sent away any more


@dataclass
class Serving:
    """A job that has arrived: its present start, and all that went before."""

    queued: Queued
    active: Active
    folder: Path
    starts: list[Sample] = field(default_factory=list)
    growing: Growing | None = None
    done_before: float = 0.0  # by the starts before the present one
    stopping: Stop | None = None
    failure: Failure | None = None
    heard: float | None = None  # on the engine's clock, once its code runs
    withdrawn: bool = False  # somebody asked for it to stop: it leaves as it is

    @property
    def finished(self) -> bool:
        """Say whether nothing is left to train."""
        sample, goal = whole(self), self.queued.goal
        if sample is None or self.failure is not None:
            return False
        met = goal.prefer != "accurate" and self.queued.job.meets(goal.target, sample.accuracy)
        return met or sample.epochs >= goal.cap

    @property
    def done(self) -> float:
        """Return the share of the training that is done; the end itself is told by the engine."""
        if self.growing is None:
            return self.done_before
        sample = self.growing.sample
        trained = max(sample.epochs - self.growing.launch.trained, 0.0)
        return min(self.done_before + trained / self.queued.needed[sample.config.global_batch], 1.0)


def whole(served: Serving) -> Sample | None:
    """Return the last start of a job with the learning curve of all of them, and their seconds together."""
    starts = (*served.queued.earlier, *served.starts)
    if not starts:
        return None
    curve = tuple(point for start in starts for point in start.curve)
    return replace(starts[-1], curve=curve, seconds=sum(start.seconds for start in starts))
