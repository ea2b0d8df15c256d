"""How far two runs of one recipe lie apart: a prior of other jobs, updated by this job's own curves.

    ln S = ln S(recipe) + sigma t4 / sqrt(2)            S: epochs to a target; sigma is a deviation
    ln sigma ~ N(ln MEDIAN, WIDTH)  x  p(repeats | sigma)  x  p(wiggle | sigma)

sigma lies on a grid. Repeats of a recipe are evidence by how far apart they reach the same levels. A single run is
evidence by its wiggle w, which is how far its evaluations lie off a smooth curve, in ln epochs:

    ln sigma = ln(RATIO w) +- sqrt(RATIO_WIDTH^2 + variance of ln w)

It counts both ways: runs with orderly curves end together, runs with rough ones do not. Further evaluations of one run
lessen the second variance (that of the logarithm of a chi-squared), never the first. After k runs one more lies

    sigma t4 / sqrt(2) x sqrt(1 + 1/k)                  from their mean, averaged over sigma

(`scatter.py`), which has long tails. Some runs stall and never arrive: the least lucky NEVER of all draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import polygamma

from cotune.predict.samples import LearningCurve, by_global_batch
from cotune.predict.scatter import Scatter
from cotune.types import Floats


@dataclass(frozen=True, slots=True)
class LuckPrior:
    """What other jobs say of run-to-run variance; sigma is the deviation of ln epochs between runs of one recipe."""

    median: float = 0.05
    """Median of sigma over 28 tasks is 0.041: plain scripts have up to 0.28, tuned and annealed ones down to 0.002."""

    width: float = 1.0
    """Deviation of ln sigma between these tasks is 1.04, of which a kind of jobs alone has less."""

    ratio: float = 1.25
    """Sigma over wiggle in the geometric mean of 16 tasks, own and recent MLPerf; 1.13 to 1.31 with each left out."""

    ratio_width: float = 0.6
    """Deviation of its logarithm between and within these tasks; 0.49 to 0.66 with each left out."""

    freedom: float = 4.0
    """Degrees of freedom of Student's t."""

    never: float = 0.01
    """Share of runs that stall."""

    misfit: float = 0.12
    """Deviation of ln epochs of recipes from the fitted law: 0.15 to 0.2 at fixed rates, 0.04 where they are tuned."""


PRIOR = LuckPrior()
_LEVELS = (0.5, 0.75, 1.0)  # of the rise that repeats share, at which they are compared
_LEAST = 0.005  # deviation of ln epochs: no clockwork is better
_LATER = 0.25  # of a curve's epochs, from which on a polynomial in ln epochs follows it
_DEGREE = 2  # of that polynomial: a parabola
NEVER = 1e4  # deviations: below every target, but where nothing deviates


@dataclass(frozen=True)
class Luck:
    """What is known of the spread between runs, in ln epochs; some runs never arrive."""

    scatter: Scatter

    def deviation(self, runs: float = 1.0) -> float:
        """Return one deviation of ln epochs of one more run after so many: nine in ten are within Z90 of it."""
        return self.scatter.one_more(runs)

    def kept(self, runs: float) -> float:
        """Return the share of what so many runs of a recipe are off its law that is the recipe's and not luck."""
        own = PRIOR.misfit**2
        return own / (own + self.scatter.sigma**2 / runs)

    def draws(self, normal: Floats) -> Floats:
        """Return standard normal draws bent to the tails of this luck, some of them never arriving."""
        bent = self.scatter.draws(normal)
        bent[np.argsort(normal, kind="stable")[: int(np.ceil(PRIOR.never * len(normal)))]] = -NEVER
        return bent


def luck(found: Sequence[LearningCurve]) -> Luck:
    """Return what the curves of a job say of the spread between its runs; without any, what other jobs do."""
    return _luck(tuple(found))


@lru_cache(256)
def _luck(found: tuple[LearningCurve, ...]) -> Luck:
    groups = [same for same in by_global_batch(found).values() if len(same) > 1]
    apart = [(len(same), far) for same in groups if (far := _apart(same)) is not None]
    scatter = Scatter.prior(PRIOR.median, PRIOR.width, PRIOR.freedom).after(apart)
    if wiggles := [wiggle for curve in found if (wiggle := _wiggle(curve)) is not None]:
        logs, variances = np.array(wiggles).T
        middle = np.log(PRIOR.ratio) + np.average(logs, weights=1 / variances)
        variance = PRIOR.ratio_width**2 + 1 / np.sum(1 / variances)
        scatter = scatter.weighted(-0.5 * (np.log(scatter.sigmas) - middle) ** 2 / variance)
    return Luck(scatter)


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


def _wiggle(curve: LearningCurve) -> tuple[float, float] | None:
    """Return the logarithm of how far evaluations lie off a smooth curve, in ln epochs, and its variance."""
    later = curve.epochs >= _LATER * curve.epochs[-1]
    logs, values = np.log(curve.epochs[later]), curve.accuracy[later]
    freedom = len(values) - _DEGREE - 1
    slope = np.polyfit(logs, values, 1)[0] if freedom > 0 else 0.0
    if slope <= 0:
        return None
    residual = values - np.polyval(np.polyfit(logs, values, _DEGREE), logs)
    wiggle = max(np.sqrt(residual @ residual / freedom) / slope, _LEAST)
    half = freedom / 2
    return np.log(wiggle) - (polygamma(0, half) - np.log(half)) / 2, polygamma(1, half) / 4
