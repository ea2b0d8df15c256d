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

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cotune.predict.features import Kind, columns, features_of
from cotune.predict.law import LAW, Law, LawTerms
from cotune.predict.predictors.gaussian import kernel_of
from cotune.predict.process import NOISE, Coefficients, Kernel, Prior, TermShares
from cotune.predict.samples import spread_out
from cotune.space import Configs
from cotune.types import Floats, Ints

_REACH: dict[Kind, float] = {"batch": 1 / 3, "number": 0.6, "explained": 0.6}  # of that of the predictor
_CANDIDATES = 4096
_JUDGED = 512


@dataclass(frozen=True)
class ProbeGain:
    """What measuring one config tells of the others, in a space of configs."""

    configs: Configs
    per_node: int | None
    law: bool = True  # whether its coefficients are to be learnt, too

    @cached_property
    def _at(self) -> Floats:
        return columns(features_of(self.configs, self.per_node), self.configs)

    @cached_property
    def _kernel(self) -> Kernel:
        return kernel_of(features_of(self.configs, self.per_node), self._at)

    @cached_property
    def _coefficients(self) -> Coefficients:
        prior = Prior.of(self._kernel, [False] * len(self._kernel.kinds), LAW, np.zeros(len(LAW)))
        coefficients = prior.coefficients(np.zeros((1, len(prior.centre))))
        coefficients.reach[:] *= [_REACH.get(kind, 1.0) for kind in self._kernel.kinds]
        return coefficients

    @cached_property
    def _terms(self) -> LawTerms:
        return Law.of(self.configs, self.per_node).terms(self.configs)

    @cached_property
    def _shares(self) -> TermShares:
        return self._terms.shares(self._coefficients)

    @cached_property
    def _doubts(self) -> Floats:
        """Return how far each config lies apart (rows) for one width of each coefficient of the law (columns)."""
        return self._terms.doubts(self._coefficients) * float(self.law)

    def _covariance(self, rows: Ints, others: Ints) -> Floats:
        at, shares = self._at, (self._shares.take(rows), self._shares.take(others))
        found: Floats = self._kernel(self._coefficients, at[rows], at[others], *shares)[0]
        return found + self._doubts[rows] @ self._doubts[others].T

    @cached_property
    def _before(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Return the candidates, the configs they are judged on, their covariance and the candidates' variance."""
        candidates = spread_out(self.configs.length, _CANDIDATES)
        judged = spread_out(self.configs.length, _JUDGED)
        variance = self._kernel.variance(self._coefficients, self._at[candidates], self._shares.take(candidates))[0]
        variance += (self._doubts[candidates] ** 2).sum(axis=1)
        return candidates, judged, self._covariance(candidates, judged), variance

    def gains(self, measured: Ints) -> Floats:
        """Return what measuring each config gains once some rows were measured; nothing for those not considered."""
        candidates, judged, together, variance = self._before
        if len(measured):
            known = self._covariance(measured, measured) + NOISE**2 * np.eye(len(measured))
            to_measured = self._covariance(candidates, measured)
            pull = np.linalg.solve(known, to_measured.T).T
            together = together - pull @ self._covariance(measured, judged)
            variance = variance - np.einsum("ij,ij->i", pull, to_measured)
        gains = np.full(self.configs.length, -1.0)
        gains[candidates] = np.einsum("ij,ij->i", together, together) / (np.maximum(variance, 0.0) + NOISE**2)
        return gains
