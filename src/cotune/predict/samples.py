"""What predictors read from samples: epoch seconds by config, and learning curves.

Repeats of a config become one row, their median. A failed sample says nothing about
speed, but what it learnt before it failed still counts; what copies that never met have learnt does not.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from cotune.predict import TooFewSamples
from cotune.space import Configs
from cotune.training_speed import TELLING_SECONDS
from cotune.types import Cause, Config, Failure, Floats, Ints, Job, Sample

CURVES = 2048  # that are kept while they are asked for again
KEPT = 256  # fits that are kept so
LEAST_PACE = 0.2  # of the pace of a start that reported once, without its start-up


@dataclass(frozen=True)
class Timings:
    """Median epoch seconds of the configs that were measured."""

    configs: Configs
    seconds: Floats
    repeats: Ints


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """One learning curve: sign x accuracy after some epochs, in their order; the same only as itself."""

    global_batch: int
    batch_size: int
    epochs: Floats
    accuracy: Floats
    trained: float = 0.0  # epochs of the start in all, evaluated or not

    @property
    def silent(self) -> bool:
        """Return whether training went on without being evaluated any more."""
        gaps = np.diff(self.epochs) if len(self.epochs) > 1 else self.epochs
        return self.trained >= float(self.epochs[-1]) + 2 * max(1.0, float(gaps.max()))


def trusted(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Return the samples as forecasts take them: workers that never met tell nothing but that.

    Each trained alone, so neither pace nor curve is that of the config; a run of them may still have met its goal.
    """
    return tuple(_of_copies(sample) if sample.apart else sample for sample in samples)


def _of_copies(sample: Sample) -> Sample:
    failure = sample.failure if sample.failed else Failure(sample.warning or "its workers never met", Cause.APART)
    return replace(sample, epoch_seconds=None, accuracy=None, curve=(), failure=failure)


def timed(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples that tell how fast a config is.

    The pace of a start that reported once holds its start-up. It is left out where its config has started otherwise,
    and else has the usual start-up taken off, where other starts tell it. So has that of a start whose reports were all
    read at once, unless the usual start-up is about all of it: then it is left out. A brief start, whose lines came
    too soon after one another, is left out where its config has a longer one.
    """
    told = [
        sample
        for sample in samples
        if not sample.failed
        and sample.epoch_seconds is not None
        and math.isfinite(sample.epoch_seconds)
        and sample.epoch_seconds > 0
    ]
    long = {sample.config for sample in told if not (_has_one_time(sample) or is_brief(sample))}
    told = [sample for sample in told if not (is_brief(sample) and sample.config in long)]
    start_ups = [sample.terms.startup for sample in told if sample.terms.startup]
    return _without_start_up(told, statistics.median(start_ups)) if start_ups else told


def _without_start_up(told: Sequence[Sample], usual: float) -> list[Sample]:
    """Return the samples whose pace is known apart from the start-up, or once the usual one is taken off."""
    better = {sample.config for sample in told if not _has_one_time(sample)}
    return [
        _less(sample, usual) if _has_one_time(sample) else sample
        for sample in told
        if not (_has_one_time(sample) and (sample.config in better or _is_all_start_up(sample, usual)))
    ]


def is_brief(sample: Sample) -> bool:
    """Return whether the reports of a live start came within so little time that its pace is hardly known.

    Of one that was never evaluated, its pace tells how long they took.
    """
    if not sample.terms.engine or sample.epoch_seconds is None:
        return False
    if sample.curve:
        told = sample.curve[-1].seconds - sample.curve[0].seconds
        return len(sample.curve) > 1 and told < TELLING_SECONDS
    told = (sample.epochs - 1) * sample.epoch_seconds if sample.terms.startup else 0.0
    return sample.epochs > 1 and told < TELLING_SECONDS


def _has_one_time(sample: Sample) -> bool:
    """Return whether all evaluations of a live start have one time, which cannot tell start-up from training."""
    only = len({point.seconds for point in sample.curve}) == 1 and sample.curve[-1].epoch == sample.epochs > 0
    return only and bool(sample.terms.engine) and not sample.terms.startup


def _is_all_start_up(sample: Sample, start_up: float) -> bool:
    """Return whether several reports at once came about when a start-up is over: what is left is no pace."""
    assert sample.epoch_seconds is not None
    return len(sample.curve) > 1 and start_up >= (1 - LEAST_PACE) * sample.epoch_seconds * sample.epochs


def _less(sample: Sample, start_up: float) -> Sample:
    """Return a sample with a start-up taken off its pace, of which a part is left whatever others took."""
    assert sample.epoch_seconds is not None
    pace = sample.epoch_seconds
    return replace(sample, epoch_seconds=max(pace - start_up / sample.epochs, LEAST_PACE * pace))


def failing(samples: Sequence[Sample]) -> list[Sample]:
    """Return the failures that still stand: those of configs that have not run since."""
    last = {sample.config: sample for sample in samples if sample.failed or sample.epoch_seconds is not None}
    return [sample for sample in samples if sample.failed and last[sample.config].failed]


def informative(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Return the samples in their order, less the failures that say nothing of their config.

    Such a start told nothing that could be read, could not have its device, or failed before the job had ever run: with
    a module missing, any config would have failed.
    """
    ran, told = False, []
    for sample in trusted(samples):
        ran = ran or sample.epoch_seconds is not None
        of_config = sample.out_of_memory or sample.apart
        if not (sample.unheard or sample.refused or (sample.failed and not of_config and not ran)):
            told.append(sample)
    return tuple(told)


def timings(samples: Sequence[Sample], least: int = 1) -> Timings:
    """Return the median epoch seconds of every measured config, of which there must be some."""
    measured: dict[Config, list[float]] = defaultdict(list)
    for sample in timed(samples):
        assert sample.epoch_seconds is not None
        measured[sample.config].append(sample.epoch_seconds)
    if len(measured) < least:
        raise TooFewSamples(f"{len(measured)} configs have epoch seconds and at least {least} are needed: profile more")
    return Timings(
        Configs.of(list(measured)),
        np.array([statistics.median(values) for values in measured.values()]),
        np.array([len(values) for values in measured.values()], dtype=np.int64),
    )


def curves(job: Job, samples: Sequence[Sample], least_points: int = 1) -> list[LearningCurve]:
    """Return the learning curves, which must hold some points between them."""
    found = [curve for sample in samples if len((curve := _kept(*_told(job, sample))).epochs)]
    if any(len(curve.epochs) >= least_points for curve in found):
        return found
    points = len({(curve.global_batch, epoch) for curve in found for epoch in curve.epochs.tolist()})
    if points < least_points:
        raise TooFewSamples(
            f"{points} evaluations of {job.metric} were measured and at least {least_points} are needed: profile longer"
        )
    return found


def by_global_batch(found: Sequence[LearningCurve]) -> dict[int, list[LearningCurve]]:
    """Return the curves of each global batch, the smallest first."""
    batches: dict[int, list[LearningCurve]] = {batch: [] for batch in sorted({curve.global_batch for curve in found})}
    for curve in found:
        batches[curve.global_batch].append(curve)
    return batches


def neighbours(wished: Floats, places: Floats) -> tuple[Ints, Ints, Floats]:
    """Return the row of the place below and above each wish, and how far it is on the way (a column of shares)."""
    at = np.interp(wished, places, np.arange(len(places), dtype=np.float64))
    below = np.floor(at).astype(np.int64)
    return below, np.minimum(below + 1, len(places) - 1), (at - below)[:, None]


def spread_out(count: int, most: int) -> Ints:
    """Return the places of at most so many of a list, evenly."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def curve_of(job: Job, sample: Sample) -> LearningCurve:
    """Return the learning curve of one sample, which may be empty."""
    return _ordered(*_told(job, sample))


def _told(job: Job, sample: Sample) -> tuple[int, int, int, tuple[tuple[float, float], ...], float]:
    points = tuple((evaluation.epoch, evaluation.accuracy) for evaluation in sample.curve)
    if not points and sample.accuracy is not None:
        points = ((sample.epochs, sample.accuracy),)
    return job.sign, sample.config.global_batch, sample.config.batch_size, points, sample.epochs


def _ordered(
    sign: int, global_batch: int, batch_size: int, points: tuple[tuple[float, float], ...], trained: float
) -> LearningCurve:
    last = dict(points)  # of evaluations after the same epoch
    kept = sorted((epoch, value) for epoch, value in last.items() if epoch > 0 and math.isfinite(value))
    epochs = np.array([epoch for epoch, _ in kept], dtype=np.float64)
    accuracy = sign * np.array([value for _, value in kept], dtype=np.float64)
    epochs.flags.writeable = accuracy.flags.writeable = False
    return LearningCurve(global_batch, batch_size, epochs, accuracy, trained)


# The same record for the same points, so that what is worked out of a curve is so once.
_kept = lru_cache(CURVES)(_ordered)
