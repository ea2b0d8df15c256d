"""A job in the live world: its plan, the starts that it has made, and how much of it is done.

Work is the share of the whole training, since another global batch may need other epochs:

    done = sum over starts of epochs trained / epochs needed at that start's global batch

A job that is stopped keeps its folder and resumes from its checkpoint; without one it begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from cotune.checkpoints import has_checkpoint
from cotune.cluster.node_rules import Taking
from cotune.cluster.policy import Active, Submission
from cotune.cluster.service.device_types import as_called
from cotune.cluster.service.planned_job import PlannedJob
from cotune.identity import new_id, timestamp
from cotune.run.attempt import Growing, Stop
from cotune.run.launch import Launch
from cotune.run.supervise import going_on
from cotune.types import Failure, Sample


@dataclass
class LiveJob:
    """A job on its way through the world: its present start, and all that went before."""

    planned: PlannedJob
    active: Active
    folder: Path
    earlier: tuple[Sample, ...] = ()  # starts before it came here; the last left a checkpoint to resume from
    starts: list[Sample] = field(default_factory=list)
    growing: Growing | None = None
    done_before: float = 0.0  # by the starts before the present one
    stopping: Stop | None = None
    failure: Failure | None = None
    heard: float | None = None  # on the engine's clock, once its code runs
    withdrawn: bool = False  # somebody asked for it to stop: it leaves as it is

    @classmethod
    def arriving(
        cls, planned: PlannedJob, submission: Submission, folder: Path, earlier: tuple[Sample, ...] = ()
    ) -> Self:
        """Return a job as the world takes it, which gives it a number."""
        restart = submission.restart or 0.0
        active = Active(submission, -1, submission.seconds, submission.work, planned.spread, restart)
        return cls(planned, active, folder, earlier)

    @property
    def id(self) -> str:
        return self.active.job.name

    @property
    def all_starts(self) -> tuple[Sample, ...]:
        return *self.earlier, *self.starts

    @property
    def whole(self) -> Sample | None:
        """Return the last start with the learning curve of all of them, and their seconds together."""
        starts = self.all_starts
        if not starts:
            return None
        curve = tuple(point for start in starts for point in start.curve)
        return replace(starts[-1], curve=curve, seconds=sum(start.seconds for start in starts))

    @property
    def finished(self) -> bool:
        """Say whether nothing is left to train."""
        sample, goal = self.whole, self.planned.goal
        if sample is None or self.failure is not None:
            return False
        met = goal.prefer != "accurate" and self.planned.job.meets(goal.target, sample.accuracy)
        return met or sample.epochs >= goal.cap

    @property
    def done(self) -> float:
        """Return the share of the training that is done; the end itself is told by the engine."""
        if self.growing is None:
            return self.done_before
        sample = self.growing.sample
        trained = max(sample.epochs - self.growing.launch.trained, 0.0)
        return min(self.done_before + trained / self.planned.needed[sample.config.global_batch], 1.0)

    def next_start(self, nodes: Taking) -> tuple[Launch, Sample]:
        """Return its next start in the config that it was given, on so many units of each node.

        What its starts have done before is forgotten where it begins anew.
        """
        assert self.active.config is not None
        planned, config = self.planned, as_called(self.active.config, self.planned.wants.device)
        target = None if planned.goal.prefer == "accurate" else planned.goal.target
        name = new_id()
        launch = Launch(
            name, planned.job, config, planned.goal.cap, self.folder, target, stop_grace=planned.stop_grace,
            nodes=tuple(node for node, units in nodes for _ in range(units)),
        )  # fmt: skip
        sample = Sample(
            config, purpose="run", id=name, started=timestamp(),
            engine=planned.engine,
            folder=str(self.folder), seed=0, goal=planned.goal,
        )  # fmt: skip
        before = next(reversed(self.all_starts), None)
        if before is None or not has_checkpoint(self.folder):
            self.done_before = 0.0
            return launch, sample
        if not self.starts:
            self.done_before = min(before.epochs / planned.needed[config.global_batch], 1.0)
        return going_on(launch, replace(before, goal=planned.goal), config)
