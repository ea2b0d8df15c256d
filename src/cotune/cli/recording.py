"""Planning on a recording: its job, its space, and samples measured by replaying it.

What is asked comes from the flags as for a live job; what may be chosen is what was
recorded. Samples stay in memory unless a store is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cotune.jobfile.settings import Settings
    from cotune.recording import Recording
    from cotune.space import Space
    from cotune.store import Store
    from cotune.types import Sample

RecordingFolder = Annotated[
    Path | None, typer.Option("--recording", help="Replay the recording in this folder instead of running the job.")
]
MaxSamples = Annotated[int, typer.Option("--max-samples", min=0, help="Most starts on a recording.")]
Budget = Annotated[
    float | None, typer.Option("--budget", min=0, help="Most replayed device-seconds of measuring on a recording.")
]
AllSamples = Annotated[bool, typer.Option("--all-samples", help="Read every row of the recording, for study only.")]


@dataclass(frozen=True, slots=True)
class Reading:
    """How much of a recording may be read: so many starts and device-seconds, or everything."""

    max_samples: int
    budget: float | None
    everything: bool


@dataclass(frozen=True, slots=True)
class ReplayedJob:
    """A recording laid over what the flags ask for."""

    settings: Settings
    recording: Recording
    folder: Path
    reading: Reading

    def kept_samples(self, store: str | None, seed: int) -> list[Sample]:
        """Return the samples, which go on from those of a store and into it where one is named."""
        from cotune.checkpoints import joined
        from cotune.cli.options import open_store

        if store is None:
            return joined(self.measured((), seed))
        with open_store(store) as kept:
            known = kept.samples(self.settings.job)
            found = self.measured(known, seed)
            for sample in found[len(known) :] if not self.reading.everything else ():
                kept.save(self.settings.job, sample)
        return joined(found)

    @contextmanager
    def store(self, url: str | None) -> Iterator[Store]:
        """Yield the store that is named, or one that is gone afterwards."""
        from cotune.store import open_store

        if url is not None:
            with open_store(url) as kept:
                yield kept
            return
        with TemporaryDirectory() as folder, open_store(f"{folder}/store.db") as kept:
            yield kept

    def measured(self, known: Sequence[Sample], seed: int) -> list[Sample]:
        """Return samples of the recording: those known, and new ones within the limits."""
        from cotune.errors import OverBudget
        from cotune.recording.samples import every_sample

        if self.reading.everything:
            return every_sample(self.recording)
        found = [*known, *self._probed(known, seed)]
        if not any(sample.epoch_seconds is not None for sample in found):
            raise OverBudget(
                f"nothing could be learnt of {self.recording.name} with {self.reading.max_samples} starts"
                + (f" and {self.reading.budget:g} device-seconds" if self.reading.budget is not None else "")
                + "; allow a larger --budget or more --max-samples"
            )
        return found

    def _probed(self, known: Sequence[Sample], seed: int) -> list[Sample]:
        from cotune.cli.output import note, progress
        from cotune.probe.active import design_for
        from cotune.probe.measure import Limits, profile
        from cotune.run.engines.recorded import Recorded
        from cotune.types import RECORDED

        settings = self.settings
        finished: dict[str, Sample] = {}
        engine = Recorded(self.folder, self.reading.budget, seed, recording=self.recording)
        limits = Limits(float("inf"), self.reading.max_samples)
        chosen = design_for(settings.job, settings.goal, settings.space, settings.cluster)
        with progress(float(self.reading.max_samples)) as shown:
            for step in profile(
                engine, chosen, known, limits, Path(self.recording.name), seed=seed, engine_name=RECORDED
            ):
                finished[step.sample.id] = step.sample
                if step.sample.ended:
                    shown.update(step.number, str(step))
                    if step.sample.failure:
                        note(f"{step.probe.config}: {step.sample.failure}")
        return list(finished.values())


def replay(
    folder: Path, asked: Mapping[str, Any], reading: Reading, file: Path | None = None, seed: int = 0
) -> ReplayedJob:
    """Return the settings of a recording: its job, devices and space under the goal that is asked."""
    from cotune.jobfile.settings import load
    from cotune.recording import read
    from cotune.types import RECORDED

    recording = read(folder)
    _check_target(recording, asked.get("target"))
    # A search is among what was recorded, not among what the job file allows.
    settings = load(file, {**asked, "search": None, "better": recording.job.better})
    goal = settings.goal
    last = asked.get("max_epochs") or goal.epochs or recording.last_epoch or goal.max_epochs
    goal = replace(goal, max_epochs=last)
    needs_curves = goal.epochs is None and (goal.target is not None or goal.prefer == "accurate")
    _check(recording, folder, needs_curves)
    space = _restricted(recording, recording.space(with_accuracy=needs_curves), asked.get("search") or {})
    laid = replace(
        settings, job=recording.job, goal=goal, space=space, cluster=recording.cluster, engine=RECORDED,
        engine_settings={"folder": str(folder), "seed": seed},
    )  # fmt: skip
    return ReplayedJob(laid, recording, folder, reading)


def _check_target(recording: Recording, target: str | None) -> None:
    """Refuse a target of another metric than the recorded one, or in the wrong direction."""
    from cotune.errors import UsageError
    from cotune.jobfile.file import target_parts

    parts = target_parts(target)
    metric, job = parts.get("metric"), recording.job
    if metric is not None and metric not in (job.metric, "accuracy"):  # `accuracy` stands for any metric
        raise UsageError(f"--target {target}: recording {recording.name} has {job.metric}, not {metric}")
    wrong = "at_most" if job.better == "higher" else "at_least"
    if wrong in parts:
        raise UsageError(f"--target {target}: in recording {recording.name} a {job.better} {job.metric} is better")


def _check(recording: Recording, folder: Path, needs_curves: bool) -> None:
    from cotune.errors import NotFound

    if not recording.times:
        raise NotFound(f"{folder} has no epoch_time.csv, so there is nothing to choose")
    if needs_curves and not recording.curves:
        raise NotFound(f"{folder} has no accuracy.csv, so a target cannot be planned for; ask for --epochs instead")


def _restricted(recording: Recording, space: Space, axes: dict[str, object]) -> Space:
    from cotune.errors import NotFound
    from cotune.jobfile.file import flagged_axis

    asked = {name: flagged_axis(name, value) for name, value in axes.items() if value is not None}
    known = {axis.name for axis in space.axes}
    if strange := sorted(set(asked) - known):
        raise NotFound(f"recording {recording.name} has no axis {strange[0]!r}; it has {', '.join(sorted(known))}")
    part = space.pinned(**asked)
    if not len(part):
        raise NotFound(f"recording {recording.name} holds nothing of what was asked for; `cotune predict` lists it")
    return part
