"""A physical law of time, and a Gaussian process on what it leaves over.

    ln t(x) = level + ln law(x) + f(x) + noise                   law: see `_law`, f: see `_process`
    cov(x, x') = that of f  +  sum over k of  (DOUBT w_k)^2 s_k(x) s_k(x')

Near samples the prediction follows them, far away the law stands, as far as its coefficients are known: w_k is the
width of the prior of coefficient k, s_k the share of its term in a step. One worker alone tells nothing of the network.
A node border is a step, an axis that is a number counts in doublings, and seconds may rise with the workers where
samples say so. Leaving a sample out has a closed form, so the errors e_i on configs left out, and their variances v_i,
cost nothing:

    e_i = ln t_i - ln t_(-i) = (K^-1 r)_i / (K^-1)_ii            v_i = 1 / (K^-1)_ii

With enough samples one in eight may be told to be odd (memory that thrashes, a neighbour on the machine), and is then
not followed. Its odds are a small prior times N(e_i; 0, v_i + odd^2) / N(e_i; 0, v_i), and the likelihood of the
coefficients is that of at most one more odd sample.

Reference: Rasmussen and Williams, Gaussian Processes for Machine Learning, MIT Press, 2006 (5.4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotune.bounds import Count
from cotune.predict.features import Feature, columns, features_of
from cotune.predict.law import LAW, LAW_WIDTH, Law
from cotune.predict.process import Coefficients, Kernel, Prior, TermShares, noise_of
from cotune.predict.samples import Timings, spread_out, timings
from cotune.space import Configs
from cotune.types import Floats, Ints, Job, Sample

_MOST_FOR_LETTERS = 48  # configs
_MOST = 256
_ROWS = 8192  # configs predicted at a time
_ENOUGH = 16  # samples, to tell odd ones among them
_PER_ODD = 8  # samples for each that may be odd
_ODD = 0.5  # deviation of ln seconds of an odd sample
# What is left of a coefficient's doubt once it is averaged, over its prior's: of 0, 0.5 and 1 by the interval score of
# seconds from 4, 8 and 16 samples, the same whichever of eight sources is left out (docs/results-prediction.md).
_DOUBT = 0.5
_RARE = np.log(0.05)  # odd samples among all; chosen on recordings, see docs/prediction.md


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A physical law with a Gaussian process on its residual; reads named axes as numbers or words."""

    per_node: Count | None = None

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> GaussianModel:  # noqa: ARG002  # the protocol's
        """Return seconds per epoch with their spread."""
        measured = _thinned(timings(samples, least=1), _MOST)
        law = Law.of(measured.configs, self.per_node)
        features = features_of(measured.configs, self.per_node)
        at = columns(features, measured.configs)
        kernel = kernel_of(features, at)
        few = spread_out(len(at), _MOST_FOR_LETTERS)
        terms = law.terms(measured.configs).take(few)
        rest = (np.log(measured.seconds) - law.base(measured.configs))[few]
        varied = np.ptp(at[few], axis=0) > 0
        prior = Prior.of(kernel, varied.tolist(), LAW, LAW_WIDTH * (np.ptp(terms.factors, axis=1) > 0))
        odd, most = np.zeros(len(at)), len(at) // _PER_ODD if len(at) >= _ENOUGH else 0

        def likelihood(coefficients: Coefficients) -> Floats:
            left = rest - terms.log(coefficients)
            left -= left.mean(axis=1, keepdims=True)
            shares = terms.shares(coefficients)
            covariance = kernel(coefficients, at[few], at[few], shares, shares)
            covariance += coefficients.noise[:, None, None] ** 2 * np.eye(len(few)) + np.diag(odd[few])
            return _log_likelihood(covariance, left)

        def with_noise(coefficients: Coefficients) -> Coefficients:
            shares, usual = terms.shares(coefficients), odd[few] == 0
            covariance = kernel(coefficients, at[few], at[few], shares, shares)[0]
            left = rest - terms.log(coefficients)[0]
            return replace(coefficients, noise=noise_of(covariance[np.ix_(usual, usual)], (left - left.mean())[usual]))

        while True:
            model = _through(measured, law, kernel, with_noise(prior.average(likelihood)), odd)
            odds = np.where(odd > 0, -np.inf, _log_odds(model.errors, 1 / np.diag(model.precision)))
            oddest = int(np.argmax(odds))
            if odds[oddest] < 0 or np.count_nonzero(odd) >= most:
                return model
            odd[oddest] = _ODD**2


def _log_likelihood(covariance: Floats, left: Floats) -> Floats:
    """Return ln p(left) for each draw, at most one sample being odd."""
    lower = np.linalg.cholesky(covariance)
    logs = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    if left.shape[1] < _ENOUGH:
        white = np.linalg.solve(lower, left[:, :, None])[:, :, 0]
        return np.asarray(-0.5 * (white**2).sum(axis=1) - logs)
    inverse = np.linalg.inv(lower)
    white = np.einsum("dij,dj->di", inverse, left)
    precision = (inverse**2).sum(axis=1)
    errors = np.einsum("dij,di->dj", inverse, white) / precision
    odds = np.logaddexp.reduce(_log_odds(errors, 1 / precision), axis=1)
    return np.asarray(-0.5 * (white**2).sum(axis=1) - logs + np.logaddexp(0.0, odds))


def _log_odds(errors: Floats, variances: Floats) -> Floats:
    """Return the logarithm of the odds that each sample is odd."""
    wide = variances + _ODD**2
    return np.asarray(_RARE + 0.5 * (np.log(variances / wide) + errors**2 * (1 / variances - 1 / wide)))


def kernel_of(features: Sequence[Feature], at: Floats) -> Kernel:
    """Return the kernel of configs at these places."""
    ranges = np.ptp(at, axis=0)
    kinds = tuple(feature.kind for feature in features)
    places = tuple(feature.name in ("workers", "nodes") for feature in features)
    formats = tuple(feature.name == "precision" for feature in features)
    middle = (at.min(axis=0) + at.max(axis=0)) / 2
    # Where the law tells matrix products from attention, it says how much of a step a shorter format speeds up.
    explained = {"device", "precision"} if "explained" in kinds else {"device"}
    words = [feature.kind == "word" and feature.name not in explained for feature in features]
    named = tuple(word and wide > 0 for word, wide in zip(words, ranges.tolist(), strict=True))
    batch = [feature.name for feature in features].index("batch_size")
    return Kernel(kinds, places, formats, middle, np.where(ranges > 0, ranges, 1.0), named, batch)


@dataclass(frozen=True, slots=True)
class GaussianModel:
    """What a process has learnt: its samples, its coefficients, and how each sample pulls."""

    law: Law
    features: tuple[Feature, ...]
    kernel: Kernel
    coefficients: Coefficients
    at: Floats
    shares: TermShares
    doubts: Floats  # what is not known of the law's coefficients (columns), in ln seconds of each sample (rows)
    level: float
    pull: Floats  # K^-1 r
    precision: Floats  # K^-1
    errors: Floats  # ln(predicted / measured) of configs left out
    surprises: Floats  # the same in deviations of what was expected of each, odd or not

    def predict(self, configs: Configs) -> Floats:
        return self.outlook(configs)[0]

    def outlook(self, configs: Configs) -> tuple[Floats, Floats]:
        """Return the seconds of each config, and the standard deviation of the logarithm of a measurement."""
        blocks = [self._block(configs.take(rows)) for rows in _blocks(configs.length)]
        middle = np.concatenate([middle for middle, _ in blocks])
        return np.exp(middle), np.concatenate([spread for _, spread in blocks])

    def _block(self, configs: Configs) -> tuple[Floats, Floats]:
        terms, at = self.law.terms(configs), columns(self.features, configs)
        shares = terms.shares(self.coefficients)
        doubts = _DOUBT * terms.doubts(self.coefficients)
        near = self.kernel(self.coefficients, at, self.at, shares, self.shares)[0] + doubts @ self.doubts.T
        law = self.law.base(configs) + terms.log(self.coefficients)[0]
        variance = self.kernel.variance(self.coefficients, at, shares)[0] + (doubts**2).sum(axis=1)
        variance += self.coefficients.noise[0] ** 2
        known = np.einsum("ij,ij->i", near @ self.precision, near)
        return law + self.level + near @ self.pull, np.sqrt(
            np.maximum(variance - known, self.coefficients.noise[0] ** 2)
        )


def _through(measured: Timings, law: Law, kernel: Kernel, coefficients: Coefficients, odd: Floats) -> GaussianModel:
    """Return the process that went through what was measured; `odd` is what is added to the variance of each."""
    features, terms = features_of(measured.configs, law.per_node), law.terms(measured.configs)
    at = columns(features, measured.configs)
    shares, doubts = terms.shares(coefficients), _DOUBT * terms.doubts(coefficients)
    covariance = kernel(coefficients, at, at, shares, shares)[0] + doubts @ doubts.T
    covariance += np.diag(coefficients.noise[0] ** 2 / measured.repeats + odd)
    precision = np.linalg.inv(covariance)
    left = np.log(measured.seconds) - law.base(measured.configs) - terms.log(coefficients)[0]
    level = float(left.mean())
    pull = precision @ (left - level)
    errors = -pull / np.diag(precision)
    surprises = errors / np.sqrt(1 / np.diag(precision) - odd)
    return GaussianModel(
        law, features, kernel, coefficients, at, shares, doubts, level, pull, precision, errors, surprises
    )


def _thinned(measured: Timings, most: int) -> Timings:
    rows = spread_out(measured.configs.length, most)
    return Timings(measured.configs.take(rows), measured.seconds[rows], measured.repeats[rows])


def _blocks(count: int) -> list[Ints]:
    return [np.arange(begin, min(begin + _ROWS, count)) for begin in range(0, max(count, 1), _ROWS)]
