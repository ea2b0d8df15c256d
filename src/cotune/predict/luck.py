"""How far two runs of one recipe lie apart: a prior learnt from repeats, updated by this job's own.

    ln S = ln S(recipe) + sigma t4 / sqrt(2)            S: epochs to a target; sigma is a deviation
    ln sigma ~ N(ln MEDIAN, WIDTH)  x  p(repeats | sigma)  x  p(wiggle | sigma)

sigma lies on a grid. Repeats of a recipe tell it by how far apart they reach the same levels; one evaluation more
of the same run tells nothing of it. What a run does tell is its wiggle: where evaluations jump about a smooth curve by
w and the curve rises by s for each whole logarithm of epochs, sigma is hardly below WIGGLE w / s. It is a floor: a
smooth run may be as lucky as any.
After k runs of a recipe one more lies

    sigma t4 / sqrt(2) x sqrt(1 + 1/k)                  from their mean, averaged over sigma

which has long tails: `Luck.draws` bends standard normal draws so that one deviation stays a tenth part's (Z90) and
tails are as long as that. Some runs stall and never arrive: the least lucky NEVER of all draws.

The prior is that of plain scripts. Tuned and annealed industrial runs (MLPerf) are another population, whose sigma is a
fifth of it; a user's script is seldom one of these, and its repeats say so soon when it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtr, stdtr

from cotune.predict.predictors.curve import roughness
from cotune.predict.samples import LearningCurve, by_global_batch
from cotune.types import Z90, Floats


@dataclass(frozen=True, slots=True)
class LuckPrior:
    """What other jobs say of the spread between runs.

    Median and width: own recordings, Zeus and AlgoPerf (plain scripts; 676 groups of repeats), not MLPerf, whose
    tuned runs have a median of 0.02 to 0.04. Wiggle: own recordings, between / wiggle 1.14 in the median, 0.85 to 2.3.
    """

    median: float = 0.08  # of sigma
    width: float = 0.9  # of ln sigma
    freedom: float = 4.0  # of Student's t
    never: float = 0.01  # of runs stall
    wiggle: float = 1.3  # sigma over wiggle / slope
    wiggle_width: float = 0.5  # of its logarithm
    misfit: float = 0.12  # of ln epochs: how far recipes lie from the fitted law (fixed rates 0.15 to 0.2, tuned 0.04)


PRIOR = LuckPrior()
_GRID = 41
_REACH = 3.0  # widths of the prior to either side
_LEVELS = (0.5, 0.75, 1.0)  # of the rise that repeats share, at which they are compared
_LEAST = 0.005  # deviation of ln epochs: no clockwork is better
_FEWEST_POINTS = 6  # of a curve whose wiggle tells something
_PLACES = 400
NEVER = 50.0  # deviations: below all others, and above nothing that is certain


@dataclass(frozen=True)
class Luck:
    """What is known of sigma: a weight for each value of a grid."""

    sigmas: Floats
    weights: Floats
    never: float = PRIOR.never

    @classmethod
    def of(cls, sigma: float) -> Luck:
        """Return the luck of a job whose sigma is known."""
        return cls(np.array([sigma]), np.ones(1), 0.0)

    @property
    def sigma(self) -> float:
        """Return the median of what sigma may be."""
        return float(np.interp(0.5, np.cumsum(self.weights), self.sigmas))

    def deviation(self, runs: float = 1.0) -> float:
        """Return one deviation of ln epochs of one more run after so many: nine in ten are within Z90 of it."""
        return float(self._tenth * np.sqrt(1 + 1 / runs) / Z90)

    def quantile(self, share: float, runs: float = 1.0) -> float:
        """Return the offset of ln epochs that a share of all further runs stays below."""
        from scipy.special import ndtri

        normal = float(ndtri(share))
        bent = float(np.interp(abs(normal), *self._cumulative[1])) * np.sqrt(1 + 1 / runs)
        return float(np.copysign(bent, normal))

    def kept(self, runs: float) -> float:
        """Return the share of what so many runs of a recipe are off its law that is the recipe's and not luck."""
        own = PRIOR.misfit**2
        return own / (own + self.sigma**2 / runs)

    def draws(self, normal: Floats) -> Floats:
        """Return standard normal draws bent to the tails of this luck, some of them never arriving."""
        _, quantiles = self._cumulative
        bent = np.interp(np.abs(normal), *quantiles) / self._tenth * Z90 * np.sign(normal)
        least = np.argsort(normal, kind="stable")[: int(np.ceil(self.never * len(normal)))]
        bent[least] = -NEVER
        return np.asarray(bent)

    @cached_property
    def _tenth(self) -> float:
        normals, offsets = self._cumulative[1]
        return float(np.interp(Z90, normals, offsets))

    @cached_property
    def _cumulative(self) -> tuple[Floats, tuple[Floats, Floats]]:
        """Return how likely offsets of ln epochs are, and the offset that lies as many normal deviations out."""
        from scipy.special import ndtri

        offsets = np.concatenate([[0.0], np.geomspace(1e-4, 60.0, _PLACES)]) * float(self.sigmas[-1])
        scaled = offsets[None, :] / (self.sigmas[:, None] * np.sqrt((PRIOR.freedom - 2) / PRIOR.freedom))
        below = np.einsum("s,so->o", self.weights, stdtr(PRIOR.freedom, scaled))
        return below, (ndtri(np.minimum(below, ndtr(6.0))), offsets)


def luck(found: Sequence[LearningCurve]) -> Luck:
    """Return what the curves of a job say of the spread between its runs; without any, what other jobs do."""
    return _luck(tuple(found))


@lru_cache(256)
def _luck(found: tuple[LearningCurve, ...]) -> Luck:
    sigmas = np.exp(np.log(PRIOR.median) + PRIOR.width * np.linspace(-_REACH, _REACH, _GRID))
    score = -0.5 * (np.log(sigmas / PRIOR.median) / PRIOR.width) ** 2
    for same in by_global_batch(found).values():
        if len(same) > 1 and (apart := _apart(same)) is not None:
            score -= (len(same) - 1) * (np.log(sigmas) + apart**2 / (2 * sigmas**2))
    if (own := _wiggle(found)) is not None:
        score -= 0.5 * (np.minimum(np.log(sigmas / (PRIOR.wiggle * own)), 0.0) / PRIOR.wiggle_width) ** 2
    weights = np.exp(score - score.max())
    return Luck(sigmas, weights / weights.sum())


def _apart(same: Sequence[LearningCurve]) -> float | None:
    """Return the deviation of ln epochs between repeats at the levels that all of them reach."""
    best = [np.maximum.accumulate(curve.accuracy) for curve in same]
    low, high = max(float(one[0]) for one in best), min(float(one[-1]) for one in best)
    if high <= low:
        return None
    logs = [
        [float(np.interp(low + share * (high - low), one, np.log(curve.epochs))) for share in _LEVELS]
        for one, curve in zip(best, same, strict=True)
    ]
    return max(float(np.sqrt(np.var(np.array(logs), axis=0, ddof=1).mean())), _LEAST)


def _wiggle(found: Sequence[LearningCurve]) -> float | None:
    """Return the wiggle of the curves over what they rise for each logarithm of epochs."""
    told = []
    for curve in found:
        if len(curve.epochs) < _FEWEST_POINTS:
            continue
        later = curve.epochs >= curve.epochs[-1] / 4
        slope = float(np.polyfit(np.log(curve.epochs[later]), curve.accuracy[later], 1)[0]) if later.sum() > 2 else 0.0
        if slope > 0 and (rough := roughness(curve)) > 0:
            told.append(rough / slope)
    return float(np.median(told)) if told else None
