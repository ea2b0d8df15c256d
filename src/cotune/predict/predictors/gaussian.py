"""The predictor `gaussian`: a law of physics, a Gaussian process on what it misses, the spread between starts.

    ln seconds(x) = level + ln law(x) + f(x) + start                 law: `law.py`       start: sigma t3 (`starts.py`)
    cov f(x, x')  = 1                                                whatever the level
                  + a^2 sum_j m5(d_j / s_j)                          each axis by itself
                  + v^2 prod_j m3(d_j / s_j)                         all of them together, words included
                  + y^2 g(x) g(x') exp(-d_workers)                   an odd network at a worker count; g: its share
                  + [same word] (k^2 + l^2 (b - m) (b' - m))         each axis of words: a level, a power of the batch b
                  + [same config] c^2                                an odd batch size: another kernel, other padding
                  + sum_k W^2 slope_k(x) slope_k(x')                 coefficient k of the law is W wide

m3 and m5 are Matern's correlations of order 3/2 and 5/2; d_j counts doublings. Reaches s, v, sigma and the coefficients
of the law have log-normal priors and are not maximised but averaged: draws that fill the prior evenly are weighted by
their likelihood. sigma is then averaged once more on a grid, the others known, together with repeats of configs. With
enough samples, one in eight that lies too far from what the others say has its variance enlarged (memory that thrashes,
a neighbour on the machine). Leaving a sample out has a closed form, so its error costs nothing:

    e_i = (K^-1 r)_i / (K^-1)_ii            v_i = 1 / (K^-1)_ii                     r: what the law leaves over

Reference: Rasmussen and Williams, Gaussian Processes for Machine Learning, MIT Press, 2006 (5.4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from cotune.bounds import Count
from cotune.predict.law import USUAL, Law, LawTerms, nodes
from cotune.predict.samples import spread_out, timings
from cotune.predict.scatter import Scatter
from cotune.predict.starts import PRIOR, between_repeats
from cotune.space import Configs
from cotune.types import Floats, Ints, Job, Sample

# All deviations are of ln seconds. They were chosen by interval scores of eight sources (our own recordings, Pollux,
# Zeus, DLPerf, ElasticFlow, Gavel, vTrain, LLM Foundry), each a mean over recordings from 4, 8, 16 and 24 samples.
ALONE = 0.12  # a
TOGETHER = 0.10  # v: Zeus and DLPerf want 0.2, the others less
NETWORK = 0.5  # y: without it Pollux is missed by 14 % more
WORD_LEVEL, WORD_POWER = 0.6, 0.12  # k, l: bf16 over fp32 on an H200 is 0.6 to 4.5 times as fast over eight doublings
ODD_CONFIG = 0.02  # c
_OTHER_WORD = 0.48  # correlation of all axes together where a word differs
REACH, REACH_OF_RANGE = 3.0, 0.7  # s in doublings of batch and workers, and in ranges of a named axis
LAW_WIDTH = np.array([1.5, 1.5, 1.5, 1.5, 1.5, 0.5])  # W
REACH_WIDTH, TOGETHER_WIDTH = 0.5, 0.8  # of ln s and ln v
_DRAWS = 384  # 256 and 512 differ by less than sources do
_FITTED, _MOST = 48, 256  # configs that coefficients are fitted to, and that the process takes in
_ENOUGH, _PER_ODD = 16, 8  # samples from which some may be odd, and for each that may be
_TOO_FAR = 3.0  # deviations of a sample left out, beyond which it is odd: without it LLM Foundry is missed by 5 % more
_ROWS = 8192  # configs predicted at a time
_LEAST = 1e-9  # of a number whose logarithm is taken
# Places of numbers: batch, accumulation, workers, nodes, servers, whether several workers or nodes, named axes. Without
# the steps to several, 66 % of our own goals were planned instead of 77 %.
_BATCH, _WORKERS, _NODES, _STEPS, _NAMED = 0, 2, 3, 5, 7


@dataclass(frozen=True, slots=True)
class Axes:
    """How configs become points. What is a number and what is a word is settled by some configs."""

    per_node: int | None

    lows: dict[str, float]
    """Lowest value of each named axis that is a number."""

    codes: dict[str, dict[object, float]]
    """A code of each value of an axis of words, the device among them."""

    reach: Floats
    """Usual distance over which each number stays similar, in doublings."""

    middle: float
    """Doublings of the batch in the middle of these configs."""

    @classmethod
    def of(cls, configs: Configs, per_node: int | None) -> Axes:
        words, lows = {"device": configs.device.tolist()}, {}
        for name, column in sorted(configs.named.items()):
            values = column.tolist()
            if all(type(value) in (int, float) for value in values):
                lows[name] = float(min(values))
            else:
                words[name] = values
        codes = {name: {value: float(code) for code, value in enumerate(dict.fromkeys(words[name]))} for name in words}
        at = cls(per_node, lows, codes, np.zeros(0), 0.0).numbers(configs)
        ranges = np.ptp(at, axis=0)
        reach = np.where(ranges > 0, REACH_OF_RANGE * ranges, 1.0)
        reach[:_STEPS], reach[_STEPS:_NAMED] = REACH, 1.0
        return cls(per_node, lows, codes, reach, float(at[:, _BATCH].min() + at[:, _BATCH].max()) / 2)

    def numbers(self, configs: Configs) -> Floats:
        """Return doublings (columns) of each config, at the places above; named axes come last."""
        across = nodes(configs, self.per_node)
        steps = [np.minimum(configs.workers, 2), np.minimum(across, 2)]
        columns = [configs.batch_size, configs.accumulate, configs.workers, across, 1 + configs.servers, *steps]
        for name, low in self.lows.items():
            values = configs.columns[name].tolist() if name in configs.columns else [low] * configs.length
            numbers = np.array([value if type(value) in (int, float) else low for value in values], dtype=np.float64)
            columns.append(np.maximum(numbers if low > 0 else 1 + numbers - low, _LEAST))
        return np.log2(np.maximum(np.stack(columns, axis=1).astype(np.float64), _LEAST))

    def words(self, configs: Configs) -> Floats:
        """Return the code of each word of each config (rows), -1 for one that no measured config has."""
        columns = []
        for name, codes in self.codes.items():
            seen = configs.device if name == "device" else configs.columns.get(name, np.full(configs.length, ""))
            columns.append([codes.get(value, -1.0) for value in seen.tolist()])
        return np.array(columns).T.reshape(configs.length, len(columns))


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Coefficients of some draws, a row each."""

    reach: Floats
    together: Floats
    law: Floats

    @classmethod
    def usual(cls, axes: Axes) -> Coefficients:
        """Return the centres of the priors."""
        return cls(axes.reach[None], np.array([TOGETHER]), np.exp(USUAL)[None])


@dataclass(frozen=True, slots=True)
class Points:
    """Configs as the process takes them."""

    numbers: Floats
    words: Floats
    terms: LawTerms

    @classmethod
    def of(cls, configs: Configs, axes: Axes, law: Law) -> Points:
        return cls(axes.numbers(configs), axes.words(configs), law.terms(configs))

    def take(self, rows: Ints) -> Points:
        terms = LawTerms(self.terms.base[rows], self.terms.factors[:, rows], self.terms.overlap[rows])
        return Points(self.numbers[rows], self.words[rows], terms)


def covariance(axes: Axes, coefficients: Coefficients, one: Points, other: Points, *, law: bool = True) -> Floats:
    """Return the covariance of points (rows) with others (columns) for each draw; `law`: of its coefficients, too."""
    slopes, others = (points.terms.slopes(coefficients.law) for points in (one, other))
    shape = len(coefficients.together), len(one.numbers), len(other.numbers)
    total, same, far = np.ones(shape), np.ones(shape[1:], dtype=bool), np.zeros(shape[1:])
    together = np.broadcast_to(coefficients.together[:, None, None] ** 2, shape)
    for place in range(len(axes.reach)):
        apart = np.abs(one.numbers[:, place, None] - other.numbers[None, :, place])
        if not apart.any():
            total += ALONE**2
            continue
        distance = apart / coefficients.reach[:, place, None, None]
        total += ALONE**2 * _matern5(distance)
        together = together * matern3(distance)
        same &= apart == 0
        if place in (_WORKERS, _NODES):
            far += apart
    rise, others_rise = (points.numbers[:, _BATCH] - axes.middle for points in (one, other))
    for place, codes in enumerate(axes.codes.values()):
        alike = one.words[:, place, None] == other.words[None, :, place]
        together = together * np.where(alike, 1.0, _OTHER_WORD)
        same &= alike
        if len(codes) > 1:
            total += alike * (WORD_LEVEL**2 + WORD_POWER**2 * np.outer(rise, others_rise))
    network = LawTerms.of_network(slopes)[:, :, None] * LawTerms.of_network(others)[:, None]
    total += together + NETWORK**2 * network * np.exp(-far) + ODD_CONFIG**2 * same
    return total + (slopes * LAW_WIDTH[:, None] ** 2).transpose(0, 2, 1) @ others if law else total


def variance(axes: Axes, coefficients: Coefficients, points: Points, *, law: bool = True) -> Floats:
    """Return the variance of points before anything is measured, for one draw."""
    slopes = points.terms.slopes(coefficients.law)
    words = sum(len(codes) > 1 for codes in axes.codes.values())
    rise = points.numbers[:, _BATCH] - axes.middle
    total = 1 + ODD_CONFIG**2 + ALONE**2 * points.numbers.shape[1] + float(coefficients.together[0]) ** 2
    network = NETWORK**2 * LawTerms.of_network(slopes)[0] ** 2
    return np.asarray(
        total + words * (WORD_LEVEL**2 + WORD_POWER**2 * rise**2) + network + float(law) * LAW_WIDTH**2 @ slopes[0] ** 2
    )


def matern3(distance: Floats) -> Floats:
    """Return the correlation of Matern's process of order 3/2 at a distance in units of its reach."""
    scaled = np.sqrt(3.0) * distance
    return np.asarray((1 + scaled) * np.exp(-scaled))


def _matern5(distance: Floats) -> Floats:
    scaled = np.sqrt(5.0) * distance
    return np.asarray((1 + scaled + scaled**2 / 3) * np.exp(-scaled))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A physical law with a Gaussian process on its residual; reads named axes as numbers or words."""

    per_node: Count | None = None

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> GaussianModel:  # noqa: ARG002  # the protocol's
        """Return seconds per epoch with their spread."""
        measured = timings(samples)
        kept = spread_out(measured.configs.length, _MOST)
        configs, repeats = measured.configs.take(kept), measured.repeats[kept]
        axes, law = Axes.of(configs, self.per_node), Law.of(configs, self.per_node)
        model = prior = GaussianModel.prior(axes, law, Points.of(configs, axes, law), between_repeats(samples))
        logs, most = np.log(measured.seconds[kept]), len(kept) // _PER_ODD if len(kept) >= _ENOUGH else 0
        odd = np.zeros(len(kept))
        for _ in range(1 + most):
            model = prior.fitted(logs, repeats, odd)
            # An odd sample would lie `_TOO_FAR` deviations out, were its variance larger by so much.
            excess = np.maximum(model.errors**2 / _TOO_FAR**2 - (model.variances - odd), 0.0)
            excess[np.argsort(excess)[: len(excess) - most]] = 0.0
            if np.array_equal(excess > 0, odd > 0):
                break
            odd = excess
        return model


@dataclass(frozen=True, slots=True)
class GaussianModel:
    """What the process has learnt: its coefficients, the spread of starts, and how each sample pulls."""

    axes: Axes
    law: Law
    points: Points
    coefficients: Coefficients
    starts: Scatter
    level: float
    pull: Floats
    """K^-1 r."""
    precision: Floats
    """K^-1."""
    errors: Floats
    """ln(predicted / measured) of configs left out."""
    variances: Floats
    """What was expected of the squares of these errors."""

    @classmethod
    def prior(cls, axes: Axes, law: Law, points: Points, starts: Scatter) -> GaussianModel:
        """Return the process before any seconds are known."""
        nothing = np.zeros(0)
        return cls(axes, law, points, Coefficients.usual(axes), starts, 0.0, nothing, nothing, nothing, nothing)

    def fitted(self, logs: Floats, repeats: Ints, odd: Floats) -> GaussianModel:
        """Return the process through logarithms of seconds, of some repeats each; `odd` adds to their variances."""
        rows = spread_out(len(logs), _FITTED)
        few, rest = self.points.take(rows), logs[rows]
        coefficients = self._average(few, rest, repeats[rows], odd[rows])
        starts = self._spread(coefficients, few, rest, repeats[rows], odd[rows])
        whole = covariance(self.axes, coefficients, self.points, self.points)[0]
        precision = np.linalg.inv(whole + np.diag(starts.deviation**2 / repeats + odd))
        left = logs - self.points.terms.log(coefficients.law)[0]
        pull = precision @ (left - left.mean())
        variances = 1 / np.diag(precision)
        found = replace(self, coefficients=coefficients, starts=starts, level=float(left.mean()), pull=pull)
        return replace(found, precision=precision, errors=-pull * variances, variances=variances)

    def _average(self, few: Points, logs: Floats, repeats: Ints, odd: Floats) -> Coefficients:
        """Return the coefficients averaged over draws of their priors, weighted by their likelihoods."""
        varied = np.ptp(few.numbers, axis=0) > 0
        centre = np.concatenate([np.log(self.axes.reach), np.log([TOGETHER, self.starts.sigma]), USUAL])
        law_width = LAW_WIDTH * (np.ptp(few.terms.factors, axis=1) > 0)
        width = np.concatenate([REACH_WIDTH * varied, [TOGETHER_WIDTH, PRIOR.width], law_width])
        draws = centre + width * _filling(_DRAWS, len(centre))
        drawn, sigma = self._coefficients(draws)
        whole = covariance(self.axes, drawn, few, few, law=False)
        whole += sigma[:, None, None] ** 2 * np.diag(1 / repeats) + np.diag(odd)
        left = logs - few.terms.log(drawn.law)
        left -= left.mean(axis=1, keepdims=True)
        lower = np.linalg.cholesky(whole)
        white = np.linalg.solve(lower, left[:, :, None])[:, :, 0]
        score = -0.5 * (white**2).sum(axis=1) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        weight = np.exp(score - score.max())
        return self._coefficients((weight / weight.sum() @ draws)[None])[0]

    def _coefficients(self, logs: Floats) -> tuple[Coefficients, Floats]:
        """Return the coefficients whose logarithms these are, and sigma."""
        reach, (together, sigma), law = np.split(np.exp(logs.T), [len(self.axes.reach), len(self.axes.reach) + 2])
        return Coefficients(reach.T, together, law.T), sigma

    def _spread(self, found: Coefficients, few: Points, logs: Floats, repeats: Ints, odd: Floats) -> Scatter:
        """Return the spread of starts once what the law and the process leave over is taken in."""
        usual = np.flatnonzero(odd == 0)
        few, scale = few.take(usual), np.sqrt(repeats[usual])
        whole = covariance(self.axes, found, few, few)[0]
        left = logs[usual] - few.terms.log(found.law)[0]
        variances, axes = np.linalg.eigh(whole * np.outer(scale, scale))
        expected = variances + self.starts.sigmas[:, None] ** 2
        squares = (axes.T @ ((left - left.mean()) * scale)) ** 2
        return self.starts.weighted(-0.5 * (squares / expected + np.log(expected)).sum(axis=1))

    def predict(self, configs: Configs) -> Floats:
        return self.outlook(configs)[0]

    def outlook(self, configs: Configs) -> tuple[Floats, Floats]:
        """Return the median seconds of each config, and the standard deviation of their logarithm."""
        blocks = [np.arange(begin, min(begin + _ROWS, configs.length)) for begin in range(0, configs.length, _ROWS)]
        found = [self._block(Points.of(configs.take(rows), self.axes, self.law)) for rows in blocks]
        middle, spread = (np.concatenate([np.zeros(0), *parts]) for parts in zip(*found, strict=True))
        return np.exp(middle), spread

    def _block(self, points: Points) -> tuple[Floats, Floats]:
        near = covariance(self.axes, self.coefficients, points, self.points)[0]
        middle = points.terms.log(self.coefficients.law)[0] + self.level + near @ self.pull
        known = np.einsum("ij,ij->i", near @ self.precision, near)
        left = variance(self.axes, self.coefficients, points) - known
        return middle, np.sqrt(np.maximum(left, 0.0))


@lru_cache(maxsize=64)
def _filling(count: int, coefficients: int) -> Floats:
    """Return standard normal draws, each coefficient's at the middles of equal shares; the first is all zeros."""
    rng = np.random.default_rng(1)
    middles = ndtri((np.arange(count) + 0.5) / count)
    draws = np.stack([rng.permutation(middles) for _ in range(coefficients)], axis=1)
    draws[0] = 0.0
    return np.asarray(draws)
