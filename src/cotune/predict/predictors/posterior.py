"""Accuracy by the posterior of learning curves (`predict/learning/`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cotune.errors import UsageError
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
        curves(job, samples)  # raises where there is none
        return learning_outlook(job, samples, self._prior() if self.prior else None)

    def _prior(self) -> CurvePrior:
        try:
            return CurvePrior.of(Path(self.prior).read_text())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{self.prior} is no prior of learning curves: {error}") from None
