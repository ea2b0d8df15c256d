"""Learning from samples what time and accuracy depend on.

    job, samples ─fit▶ model ─forecaster▶ (Configs, max_epochs) -> Outlook

A predictor is one file. It offers `fit_seconds`, `fit_accuracy` or both, and what a fit
returns predicts many configs at once. Accuracy always rises here: models learn and predict
sign x metric, and whoever shows the metric takes the sign off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from cotune.errors import NotFound
from cotune.space import Configs
from cotune.types import Floats, Job, Sample


class SecondsModel(Protocol):
    """A fitted model of seconds per epoch."""

    def predict(self, configs: Configs) -> Floats:
        """Return the seconds per epoch of each config."""
        ...


@runtime_checkable
class WithErrors(Protocol):
    """A model of seconds that knows how far it may be off."""

    @property
    def errors(self) -> Floats:
        """Return ln(predicted / measured) of each measured config, as predicted without it."""
        ...

    def predict(self, configs: Configs) -> Floats:
        """Return the seconds per epoch of each config."""
        ...

    def outlook(self, configs: Configs) -> tuple[Floats, Floats]:
        """Return the seconds per epoch of each config, and the standard deviation of their logarithm."""
        ...


class AccuracyModel(Protocol):
    """A fitted model of accuracy."""

    def predict(self, configs: Configs, epochs: Floats) -> Floats:
        """Return sign x accuracy of each config (rows) after each number of epochs (columns)."""
        ...


@runtime_checkable
class WithRemark(Protocol):
    """A fitted model that has something to say of what it was fitted to."""

    @property
    def remark(self) -> str:
        """Return it in words that follow the name of the predictor."""
        ...


@runtime_checkable
class SecondsPredictor(Protocol):
    """What can learn seconds per epoch; raises `TooFewSamples` when it cannot."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> SecondsModel: ...


@runtime_checkable
class AccuracyPredictor(Protocol):
    """What can learn accuracy from learning curves; raises `TooFewSamples` when it cannot."""

    def fit_accuracy(self, job: Job, samples: Sequence[Sample]) -> AccuracyModel: ...


SECONDS, ACCURACY = "gaussian", "posterior"  # what predicts them unless another predictor is asked for


class TooFewSamples(NotFound):
    """A predictor needs more samples, or more varied ones, than it was given."""
