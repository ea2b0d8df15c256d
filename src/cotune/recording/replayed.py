"""A recording as a job to plan for: its job, devices and space, under the goal that is asked.

What is asked comes as for a live job; what may be chosen is what was recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cotune.errors import NotFound, UsageError
from cotune.jobfile.file import JobFile
from cotune.jobfile.file import asked as read_asked
from cotune.jobfile.settings import Settings, load
from cotune.recording.reader import read
from cotune.recording.truth import Recording
from cotune.space import Space
from cotune.types import RECORDED, Value


@dataclass(frozen=True, slots=True)
class ReplayedJob:
    """A recording with what was asked of it so far, by the keys of the job file."""

    folder: Path
    recording: Recording
    asked: Mapping[str, Any] = field(default_factory=dict)
    file: Path | None = None
    seed: int = 0

    @classmethod
    def open(
        cls, folder: Path, asked: Mapping[str, Any] | None = None, file: Path | None = None, seed: int = 0
    ) -> ReplayedJob:
        """Return the job of the recording in a folder."""
        return cls(folder, read(folder), asked or {}, file, seed)

    def asking(self, more: Mapping[str, Any]) -> ReplayedJob:
        """Return the job with more asked of it."""
        given = {key: value for key, value in more.items() if value is not None}
        return replace(self, asked={**self.asked, **given})

    def settings(self) -> Settings:
        """Return the recorded job, its devices and its space, under the goal that is asked."""
        recording, asked = self.recording, read_asked(self.asked)
        _check_target(recording, asked, self.asked.get("target"))
        # A search is among what was recorded, not among what the job file allows.
        settings = load(self.file, {**self.asked, "search": None, "better": recording.job.better})
        goal = settings.goal
        last = self.asked.get("max_epochs") or goal.epochs or recording.last_epoch or goal.max_epochs
        goal = replace(goal, max_epochs=last)
        if not recording.times:
            raise NotFound(f"{self.folder} has no epoch_time.csv, so there is nothing to choose")
        space = recording.space(with_accuracy=False)
        if space.needs_accuracy(goal):
            if not recording.curves:
                raise NotFound(
                    f"{self.folder} has no accuracy.csv, so a target cannot be planned for; "
                    "ask for a number of epochs instead",
                    remedy="epochs",
                )
            space = recording.space(with_accuracy=True)
        return replace(
            settings,
            job=recording.job,
            goal=goal,
            space=_restricted(recording, space, asked.search),
            cluster=recording.cluster,
            engine=RECORDED,
            engine_settings={"folder": str(self.folder), "seed": self.seed},
        )


def _check_target(recording: Recording, asked: JobFile, target: object) -> None:
    """Refuse a target of another metric than the recorded one, or in the wrong direction."""
    if asked.target is None:
        return
    metric, job = asked.target.metric, recording.job
    if metric not in (None, job.metric, "accuracy"):  # `accuracy` may be any metric
        raise UsageError(f"target {target}: recording {recording.name} has {job.metric}, not {metric}")
    if asked.target.better not in (None, job.better):
        raise UsageError(f"target {target}: in recording {recording.name} a {job.better} {job.metric} is better")


def _restricted(recording: Recording, space: Space, axes: Mapping[str, tuple[Value, ...]]) -> Space:
    known = {axis.name for axis in space.axes}
    if strange := sorted(set(axes) - known):
        raise NotFound(f"recording {recording.name} has no axis {strange[0]!r}; it has {', '.join(sorted(known))}")
    part = space.pinned(**axes)
    if not len(part):
        raise NotFound(f"recording {recording.name} holds nothing of what was asked for", remedy="list_recording")
    return part
