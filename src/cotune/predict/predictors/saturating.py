"""A device that is not full below some batch: steps are flat at first, then grow with the batch.

    T(b, n, N) = c (b0^g + b^g)^(1/g) + k1 (l - 1) / l + k2 (N - 1) / N      c, k1, k2 >= 0

b0 is the batch that fills the device and g how sharp the bend is: 1 is the affine law a + c b, large g
a corner. With gradient accumulation the first term is paid each time. The coefficients c, k1, k2 come
from non-negative least squares on the relative error for every pair (b0, g) of a grid; the pair
with the least error wins, a mild bend being preferred where the samples do not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cotune.bounds import Count
from cotune.predict.coefficients import SumOfTerms, fit_coefficients
from cotune.predict.layout import nodes
from cotune.predict.samples import timings
from cotune.space import Configs
from cotune.types import Floats, Job, Sample

_BENDS, _FILLS = (1.0, 5.0), 8.0  # the bends there are, and how far outside the measured batches b0 may lie
_USUAL_BEND = 1.6
_DOUBT = 3e-4  # of the squared relative error, for each e-fold away from the usual bend
_GRID, _ROUNDS = (6, 15), 4
_RIDGE = 1e-3
_LEAST = 1e-3  # of a step is spent computing: no worker computes for nothing


@dataclass(frozen=True, slots=True)
class Saturating:
    """Steps flat up to the batch that fills the device, then growing with it, plus ring terms."""

    per_node: Count | None = None

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> SumOfTerms:
        """Return the law with the least relative error, on a grid that is refined around its best point."""
        measured = timings(samples, least=3)
        examples = job.examples or 1  # unknown, it is a factor of every coefficient
        configs = measured.configs
        weight = configs.steps(examples) / measured.seconds
        low, high = float(configs.batch_size.min()), float(configs.batch_size.max())
        if low == high:
            return self._law(self._fit(configs, weight, low, 1.0), examples)
        bends = np.geomspace(*_BENDS, _GRID[0])
        fills = np.geomspace(low / _FILLS, high * _FILLS, _GRID[1])
        ratios = bends[1] / bends[0], fills[1] / fills[0]
        best = min((self._fit(configs, weight, fill, bend) for bend in bends for fill in fills), key=_error)
        for _ in range(_ROUNDS):
            ratios = ratios[0] ** 0.5, ratios[1] ** 0.5
            nearby = [float(np.clip(best[2] * ratios[0] ** power, *_BENDS)) for power in (-1, 0, 1)]
            pairs = [(best[1] * ratios[1] ** power, bend) for power in (-1, 0, 1) for bend in nearby]
            best = min((best, *(self._fit(configs, weight, *pair) for pair in pairs)), key=_error)
        return self._law(best, examples)

    def _law(self, best: _Fit, examples: int) -> SumOfTerms:
        _, fill, bend, coefficients = best
        return SumOfTerms(partial(_terms, fill=fill, bend=bend, per_node=self.per_node), coefficients, examples)

    def _fit(self, configs: Configs, weight: Floats, fill: float, bend: float) -> _Fit:
        """Return the error of a pair with its doubt, the pair, and its coefficients."""
        terms = _terms(configs, fill, bend, self.per_node) * weight[:, None]
        coefficients, missed = fit_coefficients(terms, np.array([_LEAST, 0.0, 0.0]), _RIDGE)
        doubt = _DOUBT * np.log(bend / _USUAL_BEND) ** 2
        return float(missed**2 / len(weight) + doubt), fill, bend, coefficients


_Fit = tuple[float, float, float, Floats]


def _error(fit: _Fit) -> float:
    return fit[0]


def _terms(configs: Configs, fill: float, bend: float, per_node: int | None) -> Floats:
    batch, rounds = configs.batch_size.astype(np.float64), configs.accumulate.astype(np.float64)
    across = nodes(configs, per_node)
    local = configs.workers / across
    compute = rounds * (fill**bend + batch**bend) ** (1 / bend)
    return np.column_stack([compute, (local - 1) / local, (across - 1) / across])
