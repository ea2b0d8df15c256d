"""How far one more repeat may lie from those before: a deviation that is not known, and long tails.

    x = centre + sigma s t_f            f: degrees of freedom of Student's t
    ln sigma ~ N(ln median, width)  x  p(repeats | sigma)

s is sqrt((f - 2) / f) where sigma is the deviation of all, long tails included, and Z90 / t_f(0.9) where it is that of
the usual ones, nine in ten of which lie below Z90 of it. sigma lies on a grid, with a weight for each value. Repeats
tell it by how far they lie from their own mean, so that k of them are worth k - 1; after k repeats one more lies
sqrt(1 + 1/k) as far out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from cotune.types import Z90, Floats

_GRID = 41
_REACH = 3.0  # widths of the prior to either side
_PLACES = 400
_FARTHEST = 60.0  # times the largest sigma, beyond which nothing is told apart


@dataclass(frozen=True)
class Scatter:
    """What is known of sigma: a weight for each value of a grid; a share of all comes late by some more."""

    sigmas: Floats
    weights: Floats
    freedom: float
    scale: float  # s
    late: float = 0.0  # share
    late_by: float = 0.0

    @classmethod
    def prior(cls, median: float, width: float, freedom: float) -> Scatter:
        """Return what is known before anything is repeated: nine in ten lie below Z90 sigma."""
        steps = np.linspace(-_REACH, _REACH, _GRID)
        weights = np.exp(-0.5 * steps**2)
        scale = Z90 / float(stdtrit(freedom, 0.9))
        return cls(median * np.exp(width * steps), weights / weights.sum(), freedom, scale)

    def weighted(self, score: Floats) -> Scatter:
        """Return it with a log likelihood of each sigma taken in."""
        weights = self.weights * np.exp(score - score.max())
        return replace(self, weights=weights / weights.sum())

    def after(self, repeats: Iterable[tuple[int, float]]) -> Scatter:
        """Return it after groups of so many repeats that lay apart by a deviation."""
        found = self
        for count, apart in repeats:
            found = found.weighted(-(count - 1) * (np.log(self.sigmas) + apart**2 / (2 * self.sigmas**2)))
        return found

    def wider(self, by: float) -> Scatter:
        """Return it with another deviation come on top, which repeats do not tell."""
        return replace(self, sigmas=np.hypot(self.sigmas, by)) if by else self

    @property
    def sigma(self) -> float:
        """Return the median of what sigma may be."""
        return float(np.interp(0.5, np.cumsum(self.weights), self.sigmas))

    @cached_property
    def deviation(self) -> float:
        """Return one deviation as a tenth part of all has it: nine in ten lie below Z90 of them."""
        return float(np.interp(Z90, *self._quantiles(1.0))) / Z90

    def draws(self, normal: Floats) -> Floats:
        """Return standard normal draws bent to these tails, in such deviations."""
        above, below = (np.interp(np.abs(normal), *self._quantiles(side)) for side in (1.0, -1.0))
        return np.asarray(np.where(normal > 0, above, -below) / self.deviation)

    def quantile(self, share: float, repeats: float = np.inf) -> float:
        """Return what a share of all further ones stay below, after so many repeats."""
        normal = float(ndtri(share))
        far = float(np.interp(abs(normal), *self._quantiles(np.sign(normal)))) * float(np.sqrt(1 + 1 / repeats))
        return float(np.copysign(far, normal))

    def _quantiles(self, side: float) -> tuple[Floats, Floats]:
        """Return normal deviations and the offsets that lie as far out, to one side."""
        return self._above if side > 0 else self._below

    @cached_property
    def _above(self) -> tuple[Floats, Floats]:
        offsets = self._offsets
        share = (1 - self.late) * self._cumulative(offsets) + self.late * self._cumulative(offsets - self.late_by)
        return self._as_normal(np.maximum(share, 0.5)), offsets

    @cached_property
    def _below(self) -> tuple[Floats, Floats]:
        return self._as_normal(self._cumulative(self._offsets)), self._offsets

    @staticmethod
    def _as_normal(share: Floats) -> Floats:
        return np.maximum.accumulate(ndtri(np.minimum(share, ndtr(6.0))))

    @cached_property
    def _offsets(self) -> Floats:
        return np.concatenate([[0.0], np.geomspace(1e-4, _FARTHEST, _PLACES)]) * float(self.sigmas[-1])

    def _cumulative(self, offsets: Floats) -> Floats:
        scaled = offsets[None, :] / (self.scale * self.sigmas[:, None])
        return np.asarray(np.einsum("s,so->o", self.weights, stdtr(self.freedom, scaled)))
