"""Learning from samples what time and accuracy depend on.

A predictor is one file. It offers `fit_seconds`, `fit_accuracy` or both; what a fit
returns predicts many configs at once. Accuracy always rises here: the job's sign is
applied before fitting and taken off after predicting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from cotune.space import Configs
from cotune.types import Floats, Job, Sample


class SecondsModel(Protocol):
    """A fitted model of seconds per epoch."""

    def predict(self, configs: Configs) -> Floats:
        """Return the seconds per epoch of each config."""
        ...


class AccuracyModel(Protocol):
    """A fitted model of accuracy."""

    def predict(self, configs: Configs, epochs: Floats) -> Floats:
        """Return the accuracy of each config (rows) after each number of epochs (columns)."""
        ...


@runtime_checkable
class SecondsPredictor(Protocol):
    """What can learn seconds per epoch; raises `TooFewSamples` when it cannot."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> SecondsModel: ...


@runtime_checkable
class AccuracyPredictor(Protocol):
    """What can learn accuracy from learning curves; raises `TooFewSamples` when it cannot."""

    def fit_accuracy(self, job: Job, samples: Sequence[Sample]) -> AccuracyModel: ...


class TooFewSamples(ValueError):
    """A predictor needs more samples, or more varied ones, than it was given."""
