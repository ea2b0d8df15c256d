"""A physical law of time, and a Gaussian process on what it leaves over.

    ln t(x) = level + ln law(x) + f(x) + noise                   f: see `_process`
    law(x)  = work / n x (1 + h / u + k1 (l - 1) / (l b) + k2 (N - 1) / (N b)
                            + (q1 + q2 [t across nodes]) (t - 1) + q3 a)

n workers on N nodes, l on each; b examples per worker between two exchanges, u of them at a
time; t workers share a tensor; a is what attention adds (see `_layout`). Near samples the
prediction follows them, far away the law stands. A node border is a step, an axis that is a
number counts in doublings, and seconds may rise with the workers where samples say so. Leaving
a sample out has a closed form, so the errors on configs left out cost nothing:

    ln t_i - ln t_(-i) = (K^-1 r)_i / (K^-1)_ii

Reference: Rasmussen and Williams, Gaussian Processes for Machine Learning, MIT Press, 2006 (5.4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cotune.predict._features import Feature, columns, features_of
from cotune.predict._layout import at_once, bubble, exchanged, nodes, operations, tensor, tensor_across
from cotune.predict._process import Kernel, Letters, Prior
from cotune.predict._samples import Timings, timings
from cotune.space import Configs
from cotune.types import Floats, Ints, Job, Sample

LAW = np.array([-0.7, -1.0, -1.0, -3.0, -3.0, 0.3])  # centres of ln h, k1, k2, q1, q2, q3 at a typical config
_LAW_WIDTH = np.array([1.5, 1.5, 1.5, 1.5, 1.5, 0.5])
_NETWORK = slice(1, 3)  # the terms of the network
_MOST_FOR_LETTERS = 48  # configs
_MOST = 256
_ROWS = 8192  # configs predicted at a time


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A physical law with a Gaussian process on its residual; reads named axes as numbers or words."""

    per_node: int | None = None
    reads_axes: ClassVar[bool] = True

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> GaussianModel:  # noqa: ARG002  # the protocol's
        """Return seconds per epoch with their spread."""
        measured = _thinned(timings(samples, least=2), _MOST)
        law = Law.of(measured.configs, self.per_node)
        features = features_of(measured.configs, self.per_node)
        at = columns(features, measured.configs)
        kernel = kernel_of(features, at)
        few = spread_out(len(at), _MOST_FOR_LETTERS)
        terms = law.terms(measured.configs)
        rest = np.log(measured.seconds) - law.base(measured.configs)
        varied = np.ptp(at[few], axis=0) > 0
        prior = Prior.of(kernel, varied.tolist(), LAW, _LAW_WIDTH * (np.ptp(terms[:, few], axis=1) > 0))

        def likelihood(letters: Letters) -> Floats:
            left = rest[few] - np.log1p(letters.law @ terms[:, few])
            left -= left.mean(axis=1, keepdims=True)
            share = network_share(letters, terms[:, few])
            covariance = kernel(letters, at[few], at[few], share, share)
            covariance += letters.noise[:, None, None] ** 2 * np.eye(len(few))
            lower = np.linalg.cholesky(covariance)
            white = np.linalg.solve(lower, left[:, :, None])[:, :, 0]
            return np.asarray(-0.5 * (white**2).sum(axis=1) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1))

        return _through(measured, law, features, kernel, prior.average(likelihood))


def kernel_of(features: Sequence[Feature], at: Floats) -> Kernel:
    """Return the kernel of configs at these places."""
    ranges = np.ptp(at, axis=0)
    kinds = tuple(feature.kind for feature in features)
    places = tuple(feature.name in ("workers", "nodes") for feature in features)
    return Kernel(kinds, places, (at.min(axis=0) + at.max(axis=0)) / 2, np.where(ranges > 0, ranges, 1.0))


@dataclass(frozen=True, slots=True)
class GaussianModel:
    """What a process has learnt: its samples, its letters, and how each sample pulls."""

    law: Law
    features: tuple[Feature, ...]
    kernel: Kernel
    letters: Letters
    at: Floats
    share: Floats
    level: float
    pull: Floats  # K^-1 r
    precision: Floats  # K^-1
    errors: Floats  # ln(predicted / measured) of configs left out

    @property
    def surprises(self) -> Floats:
        """Return the errors in deviations of what was expected of each."""
        return np.asarray(self.errors * np.sqrt(np.diag(self.precision)))

    def predict(self, configs: Configs) -> Floats:
        return self.outlook(configs)[0]

    def outlook(self, configs: Configs) -> tuple[Floats, Floats]:
        """Return the seconds of each config, and the standard deviation of the logarithm of a measurement."""
        blocks = [self._block(configs.take(rows)) for rows in _blocks(configs.length)]
        middle = np.concatenate([middle for middle, _ in blocks])
        return np.exp(middle), np.concatenate([spread for _, spread in blocks])

    def _block(self, configs: Configs) -> tuple[Floats, Floats]:
        terms, at = self.law.terms(configs), columns(self.features, configs)
        share = network_share(self.letters, terms)
        near = self.kernel(self.letters, at, self.at, share, self.share)[0]
        law = self.law.base(configs) + np.log1p(self.letters.law @ terms)[0]
        variance = self.kernel.variance(self.letters, at, share)[0] + self.letters.noise[0] ** 2
        known = np.einsum("ij,ij->i", near @ self.precision, near)
        return law + self.level + near @ self.pull, np.sqrt(np.maximum(variance - known, self.letters.noise[0] ** 2))


def _through(
    measured: Timings, law: Law, features: tuple[Feature, ...], kernel: Kernel, letters: Letters
) -> GaussianModel:
    """Return the process that went through what was measured."""
    at, terms = columns(features, measured.configs), law.terms(measured.configs)
    share = network_share(letters, terms)
    covariance = kernel(letters, at, at, share, share)[0] + np.diag(letters.noise[0] ** 2 / measured.repeats)
    precision = np.linalg.inv(covariance)
    left = np.log(measured.seconds) - law.base(measured.configs) - np.log1p(letters.law @ terms)[0]
    level = float(left.mean())
    pull = precision @ (left - level)
    errors = -pull / np.diag(precision)
    return GaussianModel(law, features, kernel, letters, at, share, level, pull, precision, errors)


@dataclass(frozen=True, slots=True)
class Law:
    """What multiplies each letter of the law, 1 at a typical config."""

    per_node: int | None
    typical: Floats

    @classmethod
    def of(cls, configs: Configs, per_node: int | None) -> Law:
        return cls(per_node, np.exp([np.log(scale).mean() for scale in cls._scales(configs)]))

    @staticmethod
    def _scales(configs: Configs) -> tuple[Floats, Floats]:
        """Return 1 / u and 1 / b in units of work."""
        work, _, params = operations(configs)
        return 1 / (np.maximum(at_once(configs), 1e-3) * work), params / (np.maximum(exchanged(configs), 1) * work)

    def terms(self, configs: Configs) -> Floats:
        """Return what multiplies each letter (rows) for each config (columns)."""
        idle, rate = (scale / usual for scale, usual in zip(self._scales(configs), self.typical, strict=True))
        across = nodes(configs, self.per_node)
        local = np.maximum(configs.workers, 1) / across
        split = tensor(configs) - 1
        inside, between = (local - 1) / local * rate, (across - 1) / across * rate
        far = split * tensor_across(configs, self.per_node)
        return np.stack([idle, inside, between, split, far, operations(configs)[1]])

    def base(self, configs: Configs) -> Floats:
        """Return the logarithm of work / n."""
        work, _, _ = operations(configs)
        return np.log(work * bubble(configs) / np.maximum(configs.workers, 1))


def network_share(letters: Letters, terms: Floats) -> Floats:
    """Return the share of the network in a step, for each draw and config."""
    network = letters.law[:, _NETWORK] @ terms[_NETWORK]
    return np.asarray(network / (1 + letters.law @ terms))


def _thinned(measured: Timings, most: int) -> Timings:
    rows = spread_out(measured.configs.length, most)
    return Timings(measured.configs.take(rows), measured.seconds[rows], measured.repeats[rows])


def spread_out(count: int, most: int) -> Ints:
    """Return the places of at most so many of a list, evenly."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _blocks(count: int) -> list[Ints]:
    return [np.arange(begin, min(begin + _ROWS, count)) for begin in range(0, max(count, 1), _ROWS)]
