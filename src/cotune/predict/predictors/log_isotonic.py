"""Monotone curves of batch and workers, added as logarithms.

    ln t(b, r) = m + g(ln b) + h(ln r)

g and h fall, and may rise again after their lowest point. They are fitted in turns,
each by PAVA to what the other leaves over (back-fitting), until nothing moves.

Reference: Bacchetti, Additive isotonic models, Journal of the American Statistical Association 84, 1989.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotune.bounds import Count, Positive
from cotune.predict import SecondsModel
from cotune.predict.pava import Polyline, monotone
from cotune.predict.samples import timings
from cotune.space import Configs
from cotune.types import Floats, Job, Sample


@dataclass(frozen=True, slots=True)
class LogIsotonic:
    """Monotone curves of batch and workers, multiplied (isotonic on logarithms)."""

    rounds: Count = 30
    tolerance: Positive = 1e-4

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> SecondsModel:  # noqa: ARG002  # the protocol's
        """Return t(b, r), seconds per epoch."""
        measured = timings(samples, least=3)
        batch, workers = np.log(measured.configs.per_step), np.log(measured.configs.workers)
        target = np.log(measured.seconds)
        mean = float(target.mean())
        g = h = Polyline(np.zeros(1), np.zeros(1))
        for _ in range(self.rounds):
            before = g(batch) + h(workers)
            g = _centred(monotone(batch, target - mean - h(workers), "valley"), batch)
            h = _centred(monotone(workers, target - mean - g(batch), "valley"), workers)
            if np.abs(g(batch) + h(workers) - before).max() < self.tolerance:
                break
        return _Model(mean, g, h)


def _centred(line: Polyline, at: Floats) -> Polyline:
    return Polyline(line.x, line.y - line(at).mean())


@dataclass(frozen=True, slots=True)
class _Model:
    mean: float
    g: Polyline
    h: Polyline

    def predict(self, configs: Configs) -> Floats:
        batch, workers = np.log(np.maximum(configs.per_step, 1)), np.log(configs.workers)
        return np.exp(self.mean + self.g(batch) + self.h(workers))
