"""A Gaussian process over configs: how alike their seconds are, and coefficients that are averaged.

    cov(x, x') = c^2 + sum_j a_j^2 m5(d_j / s_j)          each axis by itself; `precision` x r(x) r(x')
               + v^2 prod_j m3(d_j / s_j)                 all of them together
               + w^2 sum_j (x_j - m_j)(x'_j - m_j)        numeric named axes, in doublings: powers
               + y^2 g(x) g(x') exp(-d_workers)           g: the share of the network in a step
               + [same value] (k^2 + l^2 (b - m)(b' - m)) each named axis that is a word; b: doublings of the batch

r is the share of arithmetic that is products of matrices: attention is no faster in a shorter format.

m3 and m5 are Matern's of order 3/2 and 5/2. A worker count with a slow network is slow for all
batches, in proportion to the network's share: that is the last term. The coefficients a, s, v, the
noise and those of the law (`_law`) have log-normal priors. They are not maximised but averaged:
draws that fill the prior evenly are weighted by their likelihood, the average and the spread
of the weighted draws make the next and narrower round, and its average is used. The noise is then averaged once more
by itself.

Reference: Rasmussen and Williams, Gaussian Processes for Machine Learning, MIT Press, 2006.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cotune.predict.features import Kind
from cotune.types import Floats, Ints

CONSTANT = 1.0  # c: whatever the level of all seconds
_POWER: dict[Kind, float] = {"number": 0.5, "explained": 0.1}  # w: of ln seconds, for each doubling of a numeric axis
NETWORK = 0.5  # y
# k, l: a value of a named axis (a number format, a compiler) has a level and a power of the batch of its own. bf16 over
# fp32 on an H200: 0.6 to 4.5 times as fast over eight doublings of the batch, from launch-bound to matrix-bound (0.25 a
# doubling); 0.8 to 2.8 over three on an eighth of it (0.42); of networks that stay launch-bound 0.0.
NAMED_LEVEL, NAMED_SLOPE = 0.6, 0.12
TOGETHER = 0.10  # v
NOISE = 0.03  # of one measurement of an epoch, as a deviation of the logarithm
_ALONE: dict[Kind, float] = {  # a
    "batch": 0.12,
    "workers": 0.12,
    "step": 0.10,
    "number": 0.30,
    "explained": 0.10,
    "word": 0.25,
}
_REACH: dict[Kind, float] = {  # s, in doublings; of numeric axes in ranges
    "batch": 3.0,
    "workers": 2.5,
    "step": 1.0,
    "number": 0.7,
    "explained": 0.7,
    "word": 1.0,
}
WIDTHS = {"alone": 0.8, "reach": 0.5, "together": 0.8, "noise": 1.0}  # of the priors, as deviations of logarithms
_ROUNDS = (192, 96, 96)  # draws
_CALM = 0.5  # power of the likelihood in rounds after the first: a few draws must not decide alone
_NARROWEST = 0.2  # of the prior
_NOISES = np.linspace(-2.5, 3.0, 23)  # ln of what noise may be, over the prior's centre


@dataclass(frozen=True, slots=True)
class Coefficients:
    """The coefficients of some draws: one row each."""

    alone: Floats  # (draws, features)
    reach: Floats  # (draws, features)
    together: Floats  # (draws,)
    noise: Floats  # (draws,)
    law: Floats  # (draws, terms)


@dataclass(frozen=True, slots=True)
class TermShares:
    """Shares of the network in a step and of matrix products in its arithmetic, both (draws, configs)."""

    network: Floats
    matrices: Floats

    def take(self, rows: Ints) -> TermShares:
        return TermShares(self.network[:, rows], self.matrices[:, rows])


Likelihood = Callable[[Coefficients], Floats]  # its logarithm, for each draw


@dataclass(frozen=True)
class Kernel:
    """The covariance of configs whose features are of these kinds; lengths of numbers are shares of a range."""

    kinds: tuple[Kind, ...]
    places: tuple[bool, ...]  # which features say where workers lie
    formats: tuple[bool, ...]  # which say what numbers matrices hold
    middle: Floats  # of each feature over what was measured
    ranges: Floats
    named: tuple[bool, ...]  # which are named axes whose values are words, of which there are several
    batch: int  # the feature that is the batch

    def prior(self) -> tuple[Floats, Floats]:
        """Return the centres of ln a and ln s."""
        alone = np.log([_ALONE[kind] for kind in self.kinds])
        reach = [
            _REACH[kind] * (wide if kind in _POWER else 1.0) for kind, wide in zip(self.kinds, self.ranges, strict=True)
        ]
        return alone, np.log(reach)

    def __call__(
        self, coefficients: Coefficients, one: Floats, other: Floats, shares: TermShares, others: TermShares
    ) -> Floats:
        """Return the covariance of configs (rows) with others (columns), for each draw."""
        total = np.full((len(coefficients.noise), len(one), len(other)), CONSTANT**2)
        product = np.ones_like(total)
        far = np.zeros((len(one), len(other)))
        for place, kind in enumerate(self.kinds):
            apart = np.abs(one[:, place, None] - other[None, :, place])
            if kind == "word":
                apart = (apart > 0).astype(np.float64)
                if self.named[place]:
                    total += (1 - apart) * (
                        NAMED_LEVEL**2 + NAMED_SLOPE**2 * np.outer(self._rise(one), self._rise(other))
                    )
            elif kind in _POWER:
                rise = one[:, place] - self.middle[place]
                total += _POWER[kind] ** 2 * np.outer(rise, other[:, place] - self.middle[place])
            if self.places[place]:
                far += apart
            if not apart.any() and not self.formats[place]:
                total += coefficients.alone[:, place, None, None] ** 2
                continue
            alone, together = self._alike(coefficients.alone[:, place], coefficients.reach[:, place], apart)
            total += alone * _outer(shares.matrices, others.matrices) if self.formats[place] else alone
            product *= together
        total += coefficients.together[:, None, None] ** 2 * product
        total += NETWORK**2 * _outer(shares.network, others.network) * np.exp(-far)
        return total

    def _rise(self, at: Floats) -> Floats:
        """Return the doublings of the batch above the middle of what was measured."""
        return np.asarray(at[:, self.batch] - self.middle[self.batch])

    @staticmethod
    def _alike(alone: Floats, reach: Floats, apart: Floats) -> tuple[Floats, Floats]:
        """Return a^2 m5(d / s) and m3(d / s) of distances on one axis, for each draw.

        Configs lie at few distances from each other, which many draws need not work out again for every pair.
        """
        if len(reach) == 1:
            scaled = apart / reach[:, None, None]
            return alone[:, None, None] ** 2 * _matern5(scaled), matern3(scaled)
        distances, place = np.unique(apart, return_inverse=True)
        scaled = distances / reach[:, None]
        pairs = place.reshape(apart.shape)
        return (alone[:, None] ** 2 * _matern5(scaled))[:, pairs], matern3(scaled)[:, pairs]

    def variance(self, coefficients: Coefficients, at: Floats, shares: TermShares) -> Floats:
        """Return the variance of configs before anything is measured, for each draw."""
        weights = np.array([_POWER.get(kind, 0.0) for kind in self.kinds])
        powers = ((weights * (at - self.middle)) ** 2).sum(axis=1)
        powers = powers + sum(self.named) * (NAMED_LEVEL**2 + NAMED_SLOPE**2 * self._rise(at) ** 2)
        formats = np.array(self.formats)
        own = CONSTANT**2 + (coefficients.alone[:, ~formats] ** 2).sum(axis=1) + coefficients.together**2
        of_matrices = (coefficients.alone[:, formats] ** 2).sum(axis=1)[:, None] * shares.matrices**2
        return np.asarray(own[:, None] + of_matrices + powers[None, :] + NETWORK**2 * shares.network**2)


def _outer(one: Floats, other: Floats) -> Floats:
    return np.asarray(one[:, :, None] * other[:, None, :])


def matern3(distance: Floats) -> Floats:
    """Return the correlation of Matern's process of order 3/2 at a distance in units of its reach."""
    scaled = np.sqrt(3.0) * distance
    return np.asarray((1 + scaled) * np.exp(-scaled))


def _matern5(distance: Floats) -> Floats:
    scaled = np.sqrt(5.0) * distance
    return np.asarray((1 + scaled + scaled**2 / 3) * np.exp(-scaled))


@dataclass(frozen=True)
class Prior:
    """Centres and widths of the logarithms of all coefficients, in one row; a width of zero fixes a coefficient."""

    centre: Floats
    width: Floats
    features: int

    @classmethod
    def of(cls, kernel: Kernel, varied: Sequence[bool], law: Floats, law_width: Floats) -> Prior:
        """Return the prior; what the samples do not vary stays where it is."""
        alone, reach = kernel.prior()
        free = np.array(varied, dtype=np.float64)
        scales = np.array([kind in ("batch", "workers", *_POWER) for kind in kernel.kinds])
        centre = [alone, reach, np.log([TOGETHER, NOISE]), law]
        width = [
            WIDTHS["alone"] * free,
            WIDTHS["reach"] * free * scales,
            [WIDTHS["together"], WIDTHS["noise"]],
            law_width,
        ]
        return cls(np.concatenate(centre), np.concatenate(width), len(alone))

    def coefficients(self, draws: Floats) -> Coefficients:
        """Return the coefficients of draws given as deviations from the centre, in widths."""
        whole = np.exp(self.centre + self.width * draws)
        count = self.features
        alone, reach, rest = whole[:, :count], whole[:, count : 2 * count], whole[:, 2 * count :]
        return Coefficients(alone, reach, rest[:, 0], rest[:, 1], rest[:, 2:])

    def average(self, likelihood: Likelihood) -> Coefficients:
        """Return the coefficients averaged over draws weighted by a likelihood."""
        free = np.flatnonzero(self.width)
        centre, width = np.zeros(len(self.width)), (self.width > 0).astype(np.float64)
        for turn, count in enumerate(_ROUNDS):
            draws = centre + width * _filling(count, len(self.width))
            score = likelihood(self.coefficients(draws))
            if turn:  # draws lie where the last round was, not where the prior is
                away = (draws - centre)[:, free] / width[free]
                score = _CALM * (score - 0.5 * (draws[:, free] ** 2).sum(axis=1) + 0.5 * (away**2).sum(axis=1))
            weight = np.exp(score - score.max())
            weight /= weight.sum()
            centre = np.einsum("d,dl->l", weight, draws)
            spread = np.sqrt(np.einsum("d,dl->l", weight, (draws - centre) ** 2))
            width = np.where(self.width > 0, np.maximum(spread, _NARROWEST), 0.0)
        return self.coefficients(centre[None])


def noise_of(covariance: Floats, left: Floats) -> Floats:
    """Return the noise that residuals tell where all other coefficients are known: the mean of its logarithm on a grid.

    The few draws of `Prior.average` fill all coefficients at once, and hardly tell a noisy machine from a rough law.
    """
    variances, axes = np.linalg.eigh(covariance)
    noises = NOISE * np.exp(_NOISES)
    whole = variances + noises[:, None] ** 2
    score = -0.5 * ((axes.T @ left) ** 2 / whole + np.log(whole)).sum(axis=1) - 0.5 * (_NOISES / WIDTHS["noise"]) ** 2
    weight = np.exp(score - score.max())
    return np.exp([weight @ np.log(noises) / weight.sum()])


@lru_cache(maxsize=64)
def _filling(count: int, coefficients: int) -> Floats:
    """Return standard normal draws, each coefficient's at the middles of equal shares; the first is all zeros."""
    from scipy.special import ndtri

    rng = np.random.default_rng(1)
    middles = ndtri((np.arange(count) + 0.5) / count)
    draws = np.stack([rng.permutation(middles) for _ in range(coefficients)], axis=1)
    draws[0] = 0.0
    return np.asarray(draws)
