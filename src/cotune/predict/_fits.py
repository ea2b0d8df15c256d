"""What is learnt of accuracy is worked out once, and kept while it is asked for again.

Choosing probes, comparing predictors and leaving batches out in turn fit the same predictor to the
same evaluations again and again: with one curve more, leaving it out is the fit before. Two fits are the
same when predictor, job and evaluations are; the names and the seconds of samples do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, TypeVar

from cotune.predict import AccuracyModel, AccuracyPredictor
from cotune.types import Config, Job, Sample

KEPT = 256  # answers
Told = tuple[Config, float, float | None, tuple[tuple[float, float], ...]]  # epochs, accuracy, evaluations
Answer = TypeVar("Answer")
Work = Callable[[AccuracyPredictor, Job, Sequence[Sample]], Answer]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Some samples, equal to others that tell the same of accuracy."""

    told: tuple[Told, ...]
    samples: tuple[Sample, ...] = field(compare=False)

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Evaluated:
        """Return the samples that tell anything of accuracy."""
        known = tuple(sample for sample in samples if sample.curve or sample.accuracy is not None)
        return cls(tuple(map(_told, known)), known)


def _told(sample: Sample) -> Told:
    points = tuple((point.epoch, point.accuracy) for point in sample.curve)
    return sample.config, sample.epochs, sample.accuracy, points


def once(work: Work[Answer]) -> Work[Answer]:
    """Return the same work, done once for equal predictors (whose settings cannot change), jobs and evaluations."""

    @lru_cache(KEPT)
    def kept(predictor: Any, job: Job, evaluated: Evaluated) -> Answer:
        return work(predictor, job, evaluated.samples)

    @wraps(work)
    def asked(predictor: AccuracyPredictor, job: Job, samples: Sequence[Sample]) -> Answer:
        if isinstance(predictor, Hashable):
            return kept(predictor, job, Evaluated.of(samples))
        return work(predictor, job, samples)

    return asked


@once
def fit_accuracy(predictor: AccuracyPredictor, job: Job, samples: Sequence[Sample]) -> AccuracyModel:
    """Return what a predictor learns from some samples."""
    return predictor.fit_accuracy(job, samples)
