"""Accuracy by the posterior of learning curves (`predict/learning/`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cotune.predict.learning.outlook import LearningOutlook, learning_outlook
from cotune.predict.learning.prior import CurvePrior
from cotune.predict.samples import curves
from cotune.types import Job, Sample


@dataclass(frozen=True, slots=True)
class Posterior:
    """The forecast of learning that plans use."""

    prior: str = ""
    """A file of another prior than the one that is shipped, as `benchmarks/learning_prior.py` writes it."""

    def fit_accuracy(self, job: Job, samples: Sequence[Sample]) -> LearningOutlook:
        curves(job, samples)
        return learning_outlook(job, samples, CurvePrior.of(Path(self.prior).read_text()) if self.prior else None)
