"""What is learnt of accuracy is worked out once, and kept while it is asked for again.

Choosing probes, comparing predictors and leaving batches out in turn fit the same predictor to the
same evaluations again and again: with one curve more, leaving it out is the fit before. Two fits are the
same when predictor, job and evaluations are; the names and the seconds of samples do not count.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from hashlib import blake2b
from typing import Any, TypeVar

from cotune.predict import AccuracyModel, AccuracyPredictor
from cotune.types import Config, Job, Sample

KEPT = 256  # answers
Answer = TypeVar("Answer")
Work = Callable[[AccuracyPredictor, Job, Sequence[Sample]], Answer]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Some samples, equal to others that tell the same of accuracy."""

    configs: tuple[Config, ...]
    digest: bytes  # of all that they tell
    samples: tuple[Sample, ...] = field(compare=False)

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Evaluated:
        """Return the samples that tell anything of accuracy."""
        known = tuple(sample for sample in samples if sample.curve or sample.accuracy is not None)
        told = array("d")
        for sample in known:
            accuracy = math.nan if sample.accuracy is None else sample.accuracy
            told.extend((len(sample.curve), sample.epochs, accuracy))
            told.extend([point.epoch for point in sample.curve])
            told.extend([point.accuracy for point in sample.curve])
        return cls(tuple(sample.config for sample in known), blake2b(told, digest_size=16).digest(), known)


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
