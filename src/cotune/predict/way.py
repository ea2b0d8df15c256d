"""How far a run is on its way to the target, from what other jobs say and the evaluations so far.

    E(B) = E0 (1 + B / Bc) / (1 + B0 / Bc)       epochs to the target at global batch B; B0 is the space's middle batch
    x    = sum of  epochs trained at B / E(B)    share of the way done; a change of batch keeps it
    gap  = target - accuracy = A (1 - h(x)) + noise

    h(x) = (c^-p - (x + c)^-p) / (c^-p - (1 + c)^-p)        h(0) = 0, h(1) = 1: a power law with an offset

E0, Bc and the shape (c, p) lie on grids. A, the whole gap, follows by least squares for each point of them. The gap
says when the target is met without a guess of where the curve ends, so that one law serves accuracies and losses.
Before the first evaluation only the prior speaks: the most epochs that the user allows say what order E is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from cotune.types import Floats


@dataclass(frozen=True, slots=True)
class WayPrior:
    """What other jobs say of the epochs to a target before anything is trained."""

    share: float = 0.35  # median of E0 on the way from one epoch to the most that are allowed
    width: float = 0.9  # deviation of its logarithm
    critical: float = 0.3  # median of Bc over the largest batch of the space
    critical_width: float = 1.3  # deviation of its logarithm
    by_examples: bool = False  # it is over sqrt(middle batch x examples in an epoch) instead
    noise: float = 0.02  # of the gap at the first evaluation: what no curve is smoother than
    witnesses: float = 8.0  # evaluations that count at most: the law's own misfit does not average out
    surest: float = 0.99  # P(met) that is told at most as a run begins: some stall, whatever their forecast

    def usual_epochs(self, max_epochs: int) -> float:
        """Return the median of E0."""
        return 1.0 + self.share * (max_epochs - 1)


PRIOR = WayPrior()
# Where the learning rate does not grow with the batch, chosen with networks left out. Such curves go flat
# below their targets: what was told 0.8 and more came true in half of the runs, after many evaluations too.
FIXED_RATE = WayPrior(critical=0.05, by_examples=True, surest=0.6)
_EPOCHS = 61
_CRITICALS = 7
_OFFSETS = (0.003, 0.02, 0.1, 0.4, 2.0)
_POWERS = (0.2, 0.6, 1.2, 2.5)
_MOST = 3.0  # E0 over the most epochs allowed, at the end of the grid
_MOST_POINTS = 24  # evaluations that are looked at, evenly spread
_REACH = 1.8  # deviations of Bc to either side
_NEGLIGIBLE = 1e-3  # weight of hypotheses that are left out, over the largest


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of a run with one config: how many epochs, and the gap to the target after each evaluation."""

    column: int  # of the config
    epochs: float
    evaluations: tuple[tuple[float, float], ...] = ()  # (epochs since the leg began, gap)


@dataclass(frozen=True)
class Way:
    """What is believed of the way to the target: hypotheses with their weights."""

    whole: Floats  # (h, c) epochs of the whole way with each config, infinite where it never gets there
    weights: Floats  # (h,) sum to 1
    done: Floats  # (h,) share of the way that the run has done
    most: int  # epochs that are allowed

    @property
    def able(self) -> Floats:
        """Return the epochs of the whole way, infinite where they are more than allowed."""
        return np.where(self.whole > self.most, np.inf, self.whole)

    @property
    def left(self) -> Floats:
        """Return the epochs that are left with each config (h, c); what is overdue takes as long again as it has."""
        left = np.abs(1.0 - self.done)[:, None]
        return np.where(self.whole > self.most, np.inf, left * np.minimum(self.whole, self.most))

    def weighted(self, factors: Floats) -> Way:
        """Return the same hypotheses with their weights times some factors; those that hardly count are left out."""
        weights = self.weights * factors
        kept = weights > _NEGLIGIBLE * weights.max()
        return Way(self.whole[kept], weights[kept] / weights[kept].sum(), self.done[kept], self.most)

    def beside(self, other: Way, weight: float) -> Way:
        """Return the hypotheses of both, those of the other with so much weight in all."""
        parts = ((self, 1 - weight), (other, weight))
        return Way(
            np.vstack([one.whole for one, _ in parts]),
            np.concatenate([share * one.weights for one, share in parts]),
            np.concatenate([one.done for one, _ in parts]),
            self.most,
        )


def usual_ways(max_epochs: int, batches: Floats, prior: WayPrior = PRIOR, examples: float | None = None) -> Way:
    """Return what other jobs say of the way, for configs of these global batches, before anything is trained."""
    middle, largest = float(np.exp(np.log(batches).mean())), float(batches.max())
    epochs = np.geomspace(min(0.5, 0.01 * max_epochs), _MOST * max_epochs, _EPOCHS)
    usual = prior.critical * (np.sqrt(middle * examples) if prior.by_examples and examples else largest)
    critical = usual * np.exp(prior.critical_width * np.linspace(-_REACH, _REACH, _CRITICALS))
    first, bound = (grid.ravel() for grid in np.meshgrid(epochs, critical, indexing="ij"))
    score = -0.5 * (np.log(first / prior.usual_epochs(max_epochs)) / prior.width) ** 2
    score -= 0.5 * (np.log(bound / usual) / prior.critical_width) ** 2
    slow = (1 + batches[None, :] / bound[:, None]) / (1 + middle / bound[:, None])
    weights = np.exp(score - score.max())
    return Way(first[:, None] * slow, weights / weights.sum(), np.zeros(len(score)), max_epochs)


def renewed(found: Way, legs: Sequence[Leg], prior: WayPrior = PRIOR) -> Way:
    """Return what is believed after some legs of a run."""
    shares, gaps, done = _walked(found.whole, legs)
    believed = replace(found, done=done)
    if not len(gaps):
        return believed
    few = np.unique(np.linspace(0, len(gaps) - 1, _MOST_POINTS).round().astype(np.int64))
    score = _likelihood(shares[:, few], gaps[few], prior)
    return believed.weighted(np.exp(score - score.max()))


def _walked(whole: Floats, legs: Sequence[Leg]) -> tuple[Floats, Floats, Floats]:
    """Return the share done at each evaluation (columns) by each hypothesis (rows), the gaps, the share at the end."""
    done = np.zeros(len(whole))
    shares, gaps = [], []
    for leg in legs:
        way = whole[:, leg.column]
        for epochs, gap in leg.evaluations:
            shares.append(done + epochs / way)
            gaps.append(gap)
        done = done + leg.epochs / way
    return np.array(shares).T.reshape(len(done), -1), np.array(gaps), done


def _likelihood(shares: Floats, gaps: Floats, prior: WayPrior) -> Floats:
    """Return the logarithm of how well each hypothesis explains the gaps, averaged over shapes."""
    scale = float(np.abs(gaps).max()) or 1.0
    seen = gaps / scale
    later = np.exp(np.linspace(-1.0, 0.0, len(seen))) if len(seen) > 1 else np.ones(1)
    later = later / later.sum()
    count = min(float(len(seen)), prior.witnesses)
    found = []
    for offset, power in _shapes():
        expected = 1 - _rise(np.minimum(shares, 4.0), offset, power)  # (h, n)
        fit = np.maximum((expected * seen * later).sum(axis=1), 0.0) / ((expected**2 * later).sum(axis=1) + 1e-12)
        missed = ((seen - fit[:, None] * expected) ** 2 * later).sum(axis=1) + prior.noise**2
        found.append(-0.5 * count * np.log(missed))
    stacked = np.array(found)
    best = stacked.max(axis=0)
    return np.asarray(best + np.log(np.exp(stacked - best).mean(axis=0)))


@lru_cache(1)
def _shapes() -> tuple[tuple[float, float], ...]:
    return tuple((offset, power) for offset in _OFFSETS for power in _POWERS)


def _rise(share: Floats, offset: float, power: float) -> Floats:
    """Return h: the part of the gap that is closed after a share of the way."""
    first = offset**-power
    return np.asarray((first - (share + offset) ** -power) / (first - (1 + offset) ** -power))
