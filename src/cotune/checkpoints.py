"""Nothing measured is thrown away: a run goes on from the probe that trained its recipe furthest.

    left = (N - e) epochs        N: what a whole training takes, e: what the probe has trained

so only the probes of other recipes are a cost. The global batch and the named axes must be the
same, but for those that spread a model over its workers: a checkpoint holds weights, not workers, so
another layout may go on with it. Where
servers do not wait for their workers, accuracy depends on these too, and the layout must be
the same.

Of every recipe one checkpoint is kept, the furthest. When there are too many, or they fill
the disk, the oldest go first.

A row of a store is data: the folder that it names may be anybody's. Only in the project's own run
folders is anything ever removed or written.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cotune.space import Configs
from cotune.types import RECORDED, SPREADING, Axes, Config, Evaluation, Floats, Goal, Job, Sample

LEAST_EPOCHS = 1.0  # thirty steps are not worth a checkpoint
MOST_RECIPES = 8
MOST_OF_DISK = 0.25  # of what is free, for all kept checkpoints together
CHECKPOINT = "checkpoint"
FROM_ZERO = "counts-from-zero"  # beside the checkpoint of a script whose first epoch is called 0

Lineage = tuple[int, Axes, Config | None]


def lineage(config: Config) -> Lineage:
    """Return what two configs must share for one to go on with the other's weights."""
    axes = tuple((name, value) for name, value in config.axes if name not in SPREADING)
    return config.global_batch, axes, None if config.waits else config


def has_checkpoint(folder: str | Path) -> bool:
    """Say whether a start left something to go on from in its folder."""
    inside = Path(folder) / CHECKPOINT
    return inside.is_dir() and any(inside.iterdir())


def is_kept(engine: str, folder: str | Path) -> bool:
    """Say whether what a start has trained can be gone on with; a recording holds the rest of every curve."""
    return engine == RECORDED or (bool(folder) and has_checkpoint(folder))


def is_own(folder: str | Path, *runs: Path) -> bool:
    """Say whether a folder is one of those that this project made for its starts, in one of its folders of runs."""
    return bool(str(folder)) and Path(folder).resolve().parent in [root.resolve() for root in runs]


def can_continue(sample: Sample) -> bool:
    """Say whether a probe has trained for long enough to be gone on with, and left its weights.

    The bare rows of a recording, which took no time, are no probes.
    """
    long = sample.seconds > 0 and trained(sample) >= LEAST_EPOCHS
    good = sample.purpose == "probe" and sample.ended and not sample.failed and long
    return good and is_kept(sample.engine, sample.folder)


def trained(sample: Sample) -> float:
    """Return the epochs that a sample's checkpoint holds for sure: those up to its last evaluation."""
    return sample.curve[-1].epoch if sample.curve else 0.0


def meets(job: Job, goal: Goal, sample: Sample) -> bool:
    """Say whether nothing is left to train: the weights that a sample left meet the goal, or have its epochs."""
    if goal.epochs is not None:
        return trained(sample) == goal.epochs
    if goal.prefer == "accurate" or not sample.curve:
        return False
    if goal.target is None:
        return trained(sample) >= goal.max_epochs
    return job.meets(goal.target, sample.curve[-1].accuracy)


def holds_its_end(sample: Sample) -> bool:
    """Say whether a sample's checkpoint is known to hold its last evaluation.

    A job that counts its checkpoints writes one before it reports. Of another it is not sure which evaluation its
    checkpoint belongs to, and the run that goes on from it has to show.
    """
    return sample.engine == RECORDED or sample.terms.checkpoint is not None


@dataclass(frozen=True, slots=True)
class Resumable:
    """The probes that may be gone on with: the furthest of every recipe."""

    best: Mapping[Lineage, Sample]

    @classmethod
    def among(cls, samples: Sequence[Sample], able: Callable[[Sample], bool] = can_continue) -> Resumable:
        """Return what some samples left to go on from; of two that went as far, the earlier."""
        best: dict[Lineage, Sample] = {}
        for sample in joined(samples):
            one = lineage(sample.config)
            if able(sample) and (one not in best or trained(sample) > trained(best[one])):
                best[one] = sample
        return cls(best)

    def of(self, config: Config, goal: Goal | None = None, seed: int | None = None) -> Sample | None:
        """Return the probe that a run of this config goes on from.

        A seed that is asked for must be its own, and it must not have trained longer than the goal's epochs.
        """
        found = self.best.get(lineage(config))
        if found is None or seed not in (None, found.seed):
            return None
        return None if goal and goal.epochs and trained(found) > goal.epochs else found

    def epochs(self, job: Job, goal: Goal, configs: Configs) -> Floats:
        """Return the epochs that each config need not train again; infinite where its target is met for sure."""
        found = np.zeros(len(configs))
        for (global_batch, axes, only), sample in self.best.items():
            same = configs.global_batch == global_batch
            for name, values in configs.named.items():
                same &= (values == dict(axes).get(name, "")) | (name in SPREADING)
            rows = [row for row in np.flatnonzero(same) if only is None or configs[int(row)] == only]
            longer = goal.epochs is not None and trained(sample) > goal.epochs
            met = _epochs_met(sample) if meets(job, goal, sample) else None
            found[rows] = met if met is not None else 0.0 if longer else trained(sample)
        return found


def _epochs_met(sample: Sample) -> float:
    """Return the epochs that need not be trained again where a probe met its goal; infinite where that is sure."""
    if holds_its_end(sample):
        return np.inf
    return sample.curve[-2].epoch if len(sample.curve) > 1 else 0.0


def joined(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples with the curve of each start that went on from another made whole.

    The start it went on from keeps its seconds, and hands over its evaluations.
    """
    whole: list[tuple[Evaluation, ...]] = []
    named: dict[str, tuple[Evaluation, ...]] = {}
    handed: set[str] = set()
    for sample in samples:
        before = named.get(sample.resumed_from or "", ()) if sample.curve else ()
        whole.append((*(point for point in before if point.epoch < sample.curve[0].epoch), *sample.curve))
        if sample.id:
            named[sample.id] = whole[-1]
        if before:
            handed.add(sample.resumed_from or "")
    return [
        _with_curve(sample, () if sample.id in handed else curve) for sample, curve in zip(samples, whole, strict=True)
    ]


def _with_curve(sample: Sample, curve: tuple[Evaluation, ...]) -> Sample:
    if curve == sample.curve:
        return sample
    return replace(sample, curve=curve, accuracy=curve[-1].accuracy if curve else None)


def reused_device_seconds(continues: str | None, samples: Sequence[Sample]) -> float:
    """Return what the probe of that name and those it went on from have cost."""
    by_id = {one.id: one for one in samples}
    sample, total = by_id.get(continues or ""), 0.0
    while sample is not None:
        total += sample.device_seconds
        sample = by_id.get(sample.resumed_from or "")
    return total


def take(sample: Sample, folder: Path) -> None:
    """Copy a probe's checkpoint to the folder of the start that goes on from it; the probe keeps its own."""
    if sample.engine == RECORDED:
        return
    shutil.copytree(Path(sample.folder) / CHECKPOINT, folder / CHECKPOINT, dirs_exist_ok=True)
    if (Path(sample.folder) / FROM_ZERO).exists():
        (folder / FROM_ZERO).touch()


def tidy(samples: Sequence[Sample], runs: Path, favourite: Config | None = None) -> list[Sample]:
    """Remove the checkpoints in `runs` of probes that are not kept; return those that are, the favourite first.

    What lies elsewhere is left alone, and is none of those.
    """
    here = [sample for sample in samples if sample.engine != RECORDED and is_own(sample.folder, runs)]
    own = None if favourite is None else lineage(favourite)
    best = Resumable.among(here).best
    ordered = sorted(best.values(), key=lambda sample: (lineage(sample.config) == own, sample.started), reverse=True)
    kept: list[Sample] = []
    left = _free(ordered)
    for sample in ordered:
        size = _size(Path(sample.folder) / CHECKPOINT)
        if len(kept) < MOST_RECIPES and size <= left:
            kept.append(sample)
            left -= size
    names = {sample.id for sample in kept}
    for sample in here:
        if sample.purpose == "probe" and sample.ended and sample.id not in names:
            shutil.rmtree(Path(sample.folder) / CHECKPOINT, ignore_errors=True)
    return kept


def _free(samples: Sequence[Sample]) -> float:
    """Return how many bytes kept checkpoints may take where the first of them lies."""
    if not samples:
        return 0.0
    taken = sum(_size(Path(sample.folder) / CHECKPOINT) for sample in samples)
    return MOST_OF_DISK * (shutil.disk_usage(samples[0].folder).free + taken)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
