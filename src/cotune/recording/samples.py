"""Samples as the rows of a recording, and every row of a recording as samples, for study.

Starts are numbered in the order they were made: each is a repeat of its config and a seed of its recipe. One that was
interrupted before the thirty steps of a probe were done tells no time; the evaluations it got to are as good as any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from cotune.recording import AccuracyRow, TimeRow, least_epochs
from cotune.recording.truth import Recording
from cotune.types import RECORDED, Config, Evaluation, Job, Sample

DIGITS = 6  # of a recorded time


def every_sample(recording: Recording) -> list[Sample]:
    """Return one sample for each recorded time, and one for each recorded curve."""
    times = [
        Sample(
            Config.data_parallel(
                batch, workers, device, servers=servers, accumulate=accumulate, axes=axes
            ),
            epochs=1.0,
            epoch_seconds=seconds,
            seconds=seconds,
            id=f"time {workers} {batch} {repeat}",
            engine=RECORDED,
        )
        for (device, accumulate, servers, axes), cells in recording.times.items()
        for workers, by in cells.items()
        for batch, repeats in by.items()
        for repeat, seconds in enumerate(repeats)
    ]  # fmt: skip
    device = recording.cluster.devices[0].name
    curves = [
        Sample(
            Config.data_parallel(max(1, batch // (workers or 1)), workers or 1, device),
            epochs=curve.epochs[-1],
            accuracy=curve.accuracy[-1],
            curve=tuple(
                Evaluation(epoch, accuracy, 0.0)
                for epoch, accuracy in zip(curve.epochs, curve.accuracy, strict=True)
            ),
            id=f"curve {batch} {seed}",
            engine=RECORDED,
        )
        for workers, by in recording.curves.items()
        for batch, seeds in by.items()
        for seed, curve in enumerate(seeds)
    ]  # fmt: skip
    return times + curves


def recorded_tables(job: Job, samples: Iterable[Sample]) -> tuple[list[TimeRow], list[AccuracyRow]]:
    """Return the rows of both tables, in rising order; failed starts have none."""
    good = [sample for sample in samples if not sample.failed and sample.epoch_seconds is not None]
    timed = [sample for sample in good if sample.failure is None or _long_enough(job, sample)]
    repeats = _numbered(sample.config for sample in timed)
    times = [
        TimeRow(
            sample.config.workers,
            sample.config.batch_size,
            float(f"{sample.epoch_seconds:.{DIGITS}g}"),
            sample.config.device,
            repeat=repeat,
            accumulate=sample.config.accumulate,
            servers=sample.config.servers,
            axes=sample.config.axes,
        )
        for sample, repeat in zip(timed, repeats, strict=True)
        if sample.epoch_seconds is not None
    ]
    trained = [sample for sample in good if sample.curve]
    recipes = [job.recipe(sample.config) for sample in trained]
    accuracy = [
        AccuracyRow(recipe.global_batch, point.epoch, point.accuracy, seed, recipe.workers)
        for sample, recipe, seed in zip(trained, recipes, _numbered(recipes), strict=True)
        for point in sample.curve
    ]
    times.sort(key=lambda row: (row.device, str(row.axes), row.workers, row.batch_size, int(row.repeat or 0)))
    accuracy.sort(key=lambda row: (row.workers or 0, row.global_batch, int(row.seed or 0), row.epoch))
    return times, accuracy


def _long_enough(job: Job, sample: Sample) -> bool:
    return job.examples is not None and sample.epochs >= least_epochs(sample.config, job.examples)


def _numbered(keys: Iterable[Hashable]) -> list[str]:
    """Return the number of each among its equals, from 1; nothing where no two are equal."""
    listed, so_far, numbers = list(keys), Counter[Hashable](), []
    for key in listed:
        so_far[key] += 1
        numbers.append(str(so_far[key]))
    return numbers if any(count > 1 for count in so_far.values()) else [""] * len(listed)
