"""How wrong a predictor is on what it has not seen.

Time: each config is left out in turn (in a few folds where there are many), and the
logarithm of predicted / measured is kept. Accuracy: each batch's curves are left out in
turn, and, once, the later half of every curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cotune.predict import AccuracyPredictor, SecondsPredictor, TooFewSamples
from cotune.predict.fits import fit_accuracy, once
from cotune.predict.groups import fit_seconds
from cotune.predict.samples import curves, spread_out, timed, timings
from cotune.space import Configs
from cotune.types import Floats, Job, Sample

FOLDS = 8
MOST = 512  # configs that are left out in turn; of more, these lie evenly among them
_STEP = 0.25  # in logarithms of epochs, to either side of a point whose slope is asked for
_LOST = 3.0  # the log error of a prediction that is not a positive number


def seconds_errors(predictor: SecondsPredictor, job: Job, samples: Sequence[Sample], per_node: int | None) -> Floats:
    """Return ln(predicted / measured) of configs left out in turn; those of refused fits are missing."""
    known = timed(samples)
    configs = list(dict.fromkeys(sample.config for sample in known))
    places = {configs[row]: place for place, row in enumerate(spread_out(len(configs), MOST))}
    known = [sample for sample in known if sample.config in places]
    fold = np.array([places[sample.config] % FOLDS for sample in known])
    errors: list[Floats] = [np.empty(0)]
    for turn in np.unique(fold) if len(places) > 1 else ():
        seen = [sample for sample, other in zip(known, fold, strict=True) if other != turn]
        unseen = timings([sample for sample, other in zip(known, fold, strict=True) if other == turn])
        try:
            model = fit_seconds(predictor, job, seen, per_node)
        except TooFewSamples:
            continue
        errors.append(_log_ratio(model.predict(unseen.configs), unseen.seconds))
    return np.concatenate(errors)


def _log_ratio(predicted: Floats, measured: Floats) -> Floats:
    good = np.isfinite(predicted) & (predicted > 0)
    return np.where(good, np.log(np.where(good, predicted, 1.0) / measured), _LOST)


@dataclass(frozen=True, slots=True)
class AccuracyErrors:
    """Predicted - measured at batches left out, and after the epochs that were left out."""

    batch: Floats
    later: Floats
    away: Floats  # doublings of each batch left out to the nearest one that was not
    slope: Floats  # of the curve predicted for it, for a whole logarithm of epochs
    batches: int  # left out

    @classmethod
    def none(cls) -> AccuracyErrors:
        """Return the errors of what could not be left out."""
        return cls(np.empty(0), np.empty(0), np.empty(0), np.empty(0), 0)

    @property
    def size(self) -> float:
        """Return the mean absolute error over both kinds; infinite when there is none."""
        kinds = [float(np.abs(errors).mean()) for errors in (self.batch, self.later) if len(errors)]
        return float(np.mean(kinds)) if kinds else np.inf


class _Error(NamedTuple):
    batch: int
    size: float  # predicted - measured
    slope: float


@once
def accuracy_errors(predictor: AccuracyPredictor, job: Job, samples: Sequence[Sample]) -> AccuracyErrors:
    """Return the errors at batches left out in turn, and at the end of curves cut in half."""
    batches = sorted({curve.global_batch for curve in curves(job, samples)})
    at_batches: list[_Error] = []
    away: list[float] = []
    for turn in range(min(len(batches), FOLDS)) if len(batches) > 1 else ():
        hidden = set(batches[turn::FOLDS])
        seen = [sample for sample in samples if sample.config.global_batch not in hidden]
        unseen = [sample for sample in samples if sample.config.global_batch in hidden]
        kept = np.log2([batch for batch in batches if batch not in hidden])
        doublings = {batch: float(np.abs(np.log2(batch) - kept).min()) for batch in hidden}
        found = _errors(predictor, job, seen, unseen, first=0.0)
        at_batches += found
        away += [doublings[error.batch] for error in found]
    later = _errors(predictor, job, [_first_half(s) for s in samples], samples, first=0.5)
    return AccuracyErrors(
        np.array([error.size for error in at_batches]),
        np.array([error.size for error in later]),
        np.array(away),
        np.array([error.slope for error in at_batches]),
        len({error.batch for error in at_batches}),
    )


def _first_half(sample: Sample) -> Sample:
    points = sorted(sample.curve, key=lambda point: point.epoch)
    kept = tuple(point for point in points if points and point.epoch <= points[-1].epoch / 2)
    return replace(sample, curve=kept, accuracy=None)


def _errors(
    predictor: AccuracyPredictor, job: Job, seen: Sequence[Sample], unseen: Sequence[Sample], first: float
) -> list[_Error]:
    """Return the errors at the later points of unseen curves, from a share of their length on."""
    try:
        model = fit_accuracy(predictor, job, seen)
    except TooFewSamples:
        return []
    errors: list[_Error] = []
    for sample in unseen:
        for curve in curves(job, [sample], least_points=0):
            # The start of a curve is steep and of no interest to a target near its end.
            late = curve.epochs > max(first, 0.25) * curve.epochs[-1]
            if first and len(curve.epochs) < 2:
                continue
            around = np.concatenate([curve.epochs[late] * np.exp(step) for step in (0.0, -_STEP, _STEP)])
            expected, before, after = np.split(model.predict(Configs.of([sample.config]), around)[0], 3)
            sizes, slopes = expected - curve.accuracy[late], (after - before) / (2 * _STEP)
            told = zip(sizes.tolist(), slopes.tolist(), strict=True)
            errors += [_Error(curve.global_batch, size, slope) for size, slope in told]
    return errors
