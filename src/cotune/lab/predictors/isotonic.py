"""The joint paper's predictor: one monotone curve per factor, added with weights.

    f(s) = sum_p w_p g_p(s_p)                    w_p = M_p / sum_i M_i          (7)
    M_p = 1 - 1 / (m_p + 1),   m_p = H(t) - H(t | p)                 (Algorithm 1)
    H(X) = -sum P(x) log2 P(x),  H(X | Y) = -sum P(x, y) log2 P(x | y)       (4, 5)

t is the target, normalised and binned like every factor p. g_p is fitted by PAVA:
epoch seconds f1(b, r) fall with the workers r, and fall then rise with the batch b of
a worker; accuracy f2(b, e) rises with the epochs e, and rises then falls with the batch.

The paper does not say what a 1-D fit holds fixed. `pooled` fits g_p through all samples,
whatever their other factor; `sliced` fits one g_p for each value of the other factor and
uses the nearest. It takes b of a worker in f2 too; `batch=worker` is that reading, while
the global batch is what accuracy really depends on.

PAVA pools adjacent violators:  min sum_i w_i (y_i - x_i)^2  with  x_1 <= x_2 <= ... <= x_n.
A curve that first rises and then falls is two monotone pieces around its peak, the peak being where the two together
fit best. Where that is needs the errors of all pieces: one walk through y in which a block that is lower than the one
before it is merged with it into their weighted mean.

Reference: Liang et al., joint configuration of resources and batch size, Chinese Journal of Computers 45(2), 2022.
Reference: Mair, Hornik and de Leeuw, Isotone optimization in R, Journal of Statistical Software 32(5), 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import isotonic_regression

from cotune.bounds import Count
from cotune.predict import AccuracyModel, SecondsModel
from cotune.predict.samples import curves, timings
from cotune.space import Configs
from cotune.types import Floats, Ints, Job, Sample

Binning = Literal["width", "rank"]
Shape = Literal["rising", "falling", "peak", "valley"]


@dataclass(frozen=True, slots=True)
class Isotonic:
    """One monotone curve per factor, weighted by mutual information (the joint paper's)."""

    reading: Literal["pooled", "sliced"] = "pooled"
    bins: Count = 8
    binning: Binning = "width"
    batch: Literal["global", "worker"] = "global"

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> SecondsModel:  # noqa: ARG002  # the protocol's
        """Return f1(b, r), seconds per epoch."""
        measured = timings(samples, least=2)
        factors = np.stack([measured.configs.per_step, measured.configs.workers]).astype(np.float64)
        return _Seconds(self._fit(factors, measured.seconds, ("valley", "falling")))

    def fit_accuracy(self, job: Job, samples: Sequence[Sample]) -> AccuracyModel:
        """Return f2(b, e), sign x accuracy."""
        found = curves(job, samples, least_points=2)
        batch = [curve.global_batch if self.batch == "global" else curve.batch_size for curve in found]
        factors = np.stack(
            [
                np.repeat(np.array(batch, dtype=np.float64), [len(curve.epochs) for curve in found]),
                np.concatenate([curve.epochs for curve in found]),
            ]
        )
        target = np.concatenate([curve.accuracy for curve in found])
        return _Accuracy(self._fit(factors, target, ("peak", "rising")), self.batch)

    def _fit(self, factors: Floats, target: Floats, shapes: tuple[Shape, Shape]) -> _Sum:
        shares = weights(factors, target, self.bins, self.binning)
        if self.reading == "pooled":
            anywhere = np.ones(1)
            slices = [
                _Slices(anywhere, (monotone(factor, target, shape),))
                for factor, shape in zip(factors, shapes, strict=True)
            ]
        else:
            slices = [
                _Slices.fit(factors[own], factors[1 - own], target, shape)
                for own, shape in zip((0, 1), shapes, strict=True)
            ]
        return _Sum(shares, (slices[0], slices[1]))


def weights(factors: Floats, target: Floats, bins: int, binning: Binning = "width") -> Floats:
    """Return the weight of each factor by Algorithm 1; equal ones when none tells anything."""
    label = _bin(target, bins, binning)
    entropy = _entropy(label)
    # H(t | p) = H(t, p) - H(p)
    told = [
        entropy - (_entropy(label * bins + own) - _entropy(own)) for own in (_bin(f, bins, binning) for f in factors)
    ]
    information = 1 - 1 / (np.maximum(told, 0.0) + 1)
    total = information.sum()
    return information / total if total > 1e-12 else np.full(len(factors), 1 / len(factors))


def _bin(values: Floats, bins: int, binning: Binning) -> Ints:
    """Return the bin of each value: of equal width after normalising, or of equal rank."""
    if binning == "rank":
        places, index = np.unique(values, return_inverse=True)
        return (index * bins // len(places)).astype(np.int64)
    span = float(np.ptp(values))
    normal = (values - values.min()) / span if span > 0 else np.zeros_like(values)
    return np.minimum((normal * bins).astype(np.int64), bins - 1)


def _entropy(labels: Ints) -> float:
    share = np.unique(labels, return_counts=True)[1] / len(labels)
    return float(-(share * np.log2(share)).sum())


@dataclass(frozen=True, slots=True)
class _Slices:
    """Curves of one factor, one for each value of the other."""

    places: Floats
    lines: tuple[Polyline, ...]

    @classmethod
    def fit(cls, own: Floats, other: Floats, target: Floats, shape: Shape) -> _Slices:
        places = np.unique(other)
        lines = tuple(monotone(own[other == place], target[other == place], shape) for place in places)
        return cls(places, lines)

    def __call__(self, own: Floats, other: Floats) -> Floats:
        if len(self.lines) == 1:
            return self.lines[0](own)
        borders = np.sqrt(self.places[1:] * self.places[:-1])
        nearest = np.searchsorted(borders, other)
        result = np.empty_like(own)
        for place in np.unique(nearest):
            rows = nearest == place
            result[rows] = self.lines[place](own[rows])
        return result


@dataclass(frozen=True, slots=True)
class _Sum:
    """The weighted sum of the curves of two factors."""

    shares: Floats
    slices: tuple[_Slices, _Slices]

    def __call__(self, first: Floats, second: Floats) -> Floats:
        result: Floats = self.shares[0] * self.slices[0](first, second) + self.shares[1] * self.slices[1](second, first)
        return result


@dataclass(frozen=True, slots=True)
class _Seconds:
    f1: _Sum

    def predict(self, configs: Configs) -> Floats:
        return self.f1(configs.per_step.astype(np.float64), configs.workers.astype(np.float64))


@dataclass(frozen=True, slots=True)
class _Accuracy:
    f2: _Sum
    batch: Literal["global", "worker"]

    def predict(self, configs: Configs, epochs: Floats) -> Floats:
        chosen = configs.global_batch if self.batch == "global" else configs.batch_size
        rows, columns = np.broadcast_arrays(chosen.astype(np.float64)[:, None], epochs[None, :])
        return self.f2(rows.ravel(), columns.ravel()).reshape(rows.shape)


def pava(y: Floats, weights: Floats) -> Floats:
    """Return the non-decreasing sequence nearest to y in weighted squares."""
    fitted: Floats = isotonic_regression(y, weights=weights).x if len(y) else y
    return fitted


@dataclass(frozen=True, slots=True)
class Polyline:
    """A curve through some points, straight between them and flat outside."""

    x: Floats
    y: Floats

    def __call__(self, at: Floats) -> Floats:
        return np.interp(at, self.x, self.y)


def monotone(x: Floats, y: Floats, shape: Shape) -> Polyline:
    """Return the curve of that shape nearest to the points; equal x are averaged first."""
    places, index, counts = np.unique(x, return_inverse=True, return_counts=True)
    weights = counts.astype(np.float64)
    means = np.bincount(index, y) / weights
    turn = -1.0 if shape in ("falling", "valley") else 1.0
    fit = _peak if shape in ("peak", "valley") else pava
    return Polyline(places, turn * fit(turn * means, weights))


def _peak(y: Floats, weights: Floats) -> Floats:
    """Return the nearest sequence that rises up to some place and falls after it."""
    rising = squared_errors(y, weights)[1:]
    falling = squared_errors(y[::-1], weights[::-1])[::-1][1:]
    top = int(np.argmin(rising + falling)) + 1
    return np.concatenate([pava(y[:top], weights[:top]), pava(y[top:][::-1], weights[top:][::-1])[::-1]])


def squared_errors(y: Floats, weights: Floats) -> Floats:
    """Return the squared error that `pava` leaves on the first 0, 1, 2, ... places, in one walk."""
    blocks: list[tuple[float, float]] = []  # mean and mass
    errors = [0.0]
    for value, weight in zip(y.tolist(), weights.tolist(), strict=True):
        mean, mass, error = value, weight, errors[-1]
        while blocks and blocks[-1][0] >= mean:
            other, before = blocks.pop()
            # Merging two blocks moves both to their common mean.
            error += before * mass / (before + mass) * (other - mean) ** 2
            mean = (other * before + mean * mass) / (before + mass)
            mass += before
        blocks.append((mean, mass))
        errors.append(error)
    return np.array(errors)
