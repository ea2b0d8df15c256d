"""Batch-time ETA as a predictor: a step takes what it took at the nearest config that was measured.

    epoch = examples / B x t                    t the seconds of a batch, B the global batch

Reference: a master's thesis of UESTC on scheduling TensorFlow tasks, as told in a survey of time prediction of 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotune.predict.samples import timings
from cotune.space import Configs
from cotune.types import Floats, Job, Sample


@dataclass(frozen=True, slots=True)
class Eta:
    """Steps left times the seconds of a batch, those of the nearest config that was measured."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> _BatchTime:
        """Return the seconds of a batch as measured; no other factor is known."""
        measured = timings(samples)
        examples = job.examples or 1  # unknown, it is a factor of every step
        return _BatchTime(_places(measured.configs), measured.seconds / measured.configs.steps(examples), examples)


@dataclass(frozen=True, slots=True)
class _BatchTime:
    places: Floats
    steps: Floats
    examples: int

    def predict(self, configs: Configs) -> Floats:
        apart = ((_places(configs)[:, None, :] - self.places[None, :, :]) ** 2).sum(axis=2)
        return np.asarray(self.steps[apart.argmin(axis=1)] * configs.steps(self.examples))


def _places(configs: Configs) -> Floats:
    return np.log(np.maximum(np.column_stack([configs.per_step, configs.workers]), 1.0))
