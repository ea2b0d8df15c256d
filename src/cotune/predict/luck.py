"""How far two runs of one recipe lie apart: a prior learnt from repeats, updated by this job's own.

    ln S = ln S(recipe) + sigma t4 / sqrt(2)            S: epochs to a target; sigma is a deviation
    ln sigma ~ N(ln MEDIAN, WIDTH)  x  p(repeats | sigma)  x  p(wiggle | sigma)

sigma lies on a grid. Repeats of a recipe tell it by how far apart they reach the same levels; one evaluation more
of the same run tells nothing of it. What a run does tell is its wiggle: where evaluations jump about a smooth curve by
w and the curve rises by s for each whole logarithm of epochs, sigma is hardly below WIGGLE w / s. It is a floor: a
smooth run may be as lucky as any.
After k runs of a recipe one more lies

    sigma t4 / sqrt(2) x sqrt(1 + 1/k)                  from their mean, averaged over sigma

(`scatter.py`), which has long tails. Some runs stall and never arrive: the least lucky NEVER of all draws.

The prior is that of plain scripts. Tuned and annealed industrial runs (MLPerf) are another population, whose sigma is a
fifth of it; a user's script is seldom one of these, and its repeats say so soon when it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cotune.predict.constants import CONSTANTS
from cotune.predict.ends import roughness
from cotune.predict.samples import LearningCurve, by_global_batch
from cotune.predict.scatter import Scatter
from cotune.types import Floats


@dataclass(frozen=True, slots=True)
class LuckPrior:
    """What other jobs say of the spread between runs.

    Median and width: own recordings, Zeus and AlgoPerf (plain scripts; 676 groups of repeats), not MLPerf, whose
    tuned runs have a median of 0.02 to 0.04. Wiggle: own recordings, between / wiggle 1.14 in the median, 0.85 to 2.3.
    """

    median: float = CONSTANTS.luck_median  # of sigma
    width: float = CONSTANTS.luck_width  # of ln sigma
    freedom: float = 4.0  # of Student's t
    never: float = 0.01  # of runs stall
    wiggle: float = 1.3  # sigma over wiggle / slope
    wiggle_width: float = 0.5  # of its logarithm
    misfit: float = 0.12  # of ln epochs: how far recipes lie from the fitted law (fixed rates 0.15 to 0.2, tuned 0.04)


PRIOR = LuckPrior()
_LEVELS = (0.5, 0.75, 1.0)  # of the rise that repeats share, at which they are compared
_LEAST = 0.005  # deviation of ln epochs: no clockwork is better
_FEWEST_POINTS = 6  # of a curve whose wiggle tells something
NEVER = 1e4  # deviations: below every target, but where nothing deviates


@dataclass(frozen=True)
class Luck:
    """What is known of the spread between runs, in ln epochs; some runs never arrive."""

    scatter: Scatter
    never: float = PRIOR.never

    @classmethod
    def of(cls, sigma: float) -> Luck:
        """Return the luck of a job whose sigma is known, all of whose runs arrive."""
        return cls(Scatter.of(sigma), 0.0)

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
        bent[np.argsort(normal, kind="stable")[: int(np.ceil(self.never * len(normal)))]] = -NEVER
        return bent


def luck(found: Sequence[LearningCurve]) -> Luck:
    """Return what the curves of a job say of the spread between its runs; without any, what other jobs do."""
    return _luck(tuple(found))


@lru_cache(256)
def _luck(found: tuple[LearningCurve, ...]) -> Luck:
    groups = [same for same in by_global_batch(found).values() if len(same) > 1]
    apart = [(len(same), far) for same in groups if (far := _apart(same)) is not None]
    scatter = Scatter.prior(PRIOR.median, PRIOR.width, PRIOR.freedom).after(apart)
    if (own := _wiggle(found)) is not None:
        short = np.minimum(np.log(scatter.sigmas / (PRIOR.wiggle * own)), 0.0)
        scatter = scatter.weighted(-0.5 * (short / PRIOR.wiggle_width) ** 2)
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
