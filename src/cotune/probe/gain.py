"""Which config to measure next, to know the seconds of all the others best.

    gain(x) = sum over x' of  cov(x, x')^2 / (cov(x, x) + noise^2)       given what was measured

is by how much measuring x shrinks the variance of all seconds together. The covariance is that of
`gaussian` before any coefficient is learnt, but rougher along batch sizes and numeric axes: a batch
size may be odd (another kernel, another padding), and what was never tried cannot show it. To it comes that of the
coefficients of the law, which lie apart by their widths w_k: one worker with small batches tells the overhead of
a batch, many workers the network.

    cov(x, x') = process(x, x') + sum over k of  w_k^2 s_k(x) s_k(x')          s_k: the share of term k in a step

Reference: Cohn, Ghahramani and Jordan, Active learning with statistical models, JAIR 4, 1996.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cotune.predict.law import Law
from cotune.predict.predictors.gaussian import Axes, Coefficients, Points, covariance, variance
from cotune.predict.samples import spread_out
from cotune.predict.starts import PRIOR
from cotune.space import Configs
from cotune.types import Floats, Ints

_ROUGHER = 1 / 3, 0.6  # reach of batches and of named axes, in that of the predictor
_CANDIDATES = 4096
_JUDGED = 512


@dataclass(frozen=True)
class ProbeGain:
    """What measuring one config tells of the others, in a space of configs."""

    configs: Configs
    per_node: int | None
    law: bool = True  # whether its coefficients are to be learnt, too

    @cached_property
    def _axes(self) -> Axes:
        axes = Axes.of(self.configs, self.per_node)
        rougher = np.ones(len(axes.reach))
        rougher[:2], rougher[len(rougher) - len(axes.lows) :] = _ROUGHER
        return replace(axes, reach=axes.reach * rougher)

    @cached_property
    def _points(self) -> Points:
        return Points.of(self.configs, self._axes, Law.of(self.configs, self.per_node))

    def _covariance(self, rows: Ints, others: Ints) -> Floats:
        one, other = self._points.take(rows), self._points.take(others)
        found: Floats = covariance(self._axes, Coefficients.usual(self._axes), one, other, law=self.law)[0]
        return found

    @cached_property
    def _before(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Return the candidates, the configs they are judged on, their covariance and the candidates' variance."""
        candidates = spread_out(self.configs.length, _CANDIDATES)
        judged = spread_out(self.configs.length, _JUDGED)
        alone = variance(self._axes, Coefficients.usual(self._axes), self._points.take(candidates), law=self.law)
        return candidates, judged, self._covariance(candidates, judged), alone

    def gains(self, measured: Ints) -> Floats:
        """Return what measuring each config gains once some rows were measured; nothing for those not considered."""
        candidates, judged, together, alone = self._before
        if len(measured):
            known = self._covariance(measured, measured) + PRIOR.shared**2 * np.eye(len(measured))
            to_measured = self._covariance(candidates, measured)
            pull = np.linalg.solve(known, to_measured.T).T
            together = together - pull @ self._covariance(measured, judged)
            alone = alone - np.einsum("ij,ij->i", pull, to_measured)
        gains = np.full(self.configs.length, -1.0)
        gains[candidates] = np.einsum("ij,ij->i", together, together) / (np.maximum(alone, 0.0) + PRIOR.shared**2)
        return gains
