"""Seconds of steps over several models and machines at once, from few rows.

One set of coefficients for all (they are factors on published peaks, so machines can share them) and two factors for
each machine where there are several (none reaches the same share of its peak, attention by kernels of its own), fitted
to the rows that are there with physical priors; and a residual process over what rows may have in common: width,
sequence, tokens of a micro-batch, devices, degrees, recomputation, the machine's peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotune.modelling.layouts.fitting import Logarithms, LogPrior, RobustLoss, most_likely, slopes_of
from cotune.modelling.layouts.layout import Layouts
from cotune.modelling.layouts.predictor import LayoutRows
from cotune.modelling.layouts.residual import alike
from cotune.modelling.layouts.seconds import ATTENTION, COEFFICIENTS, LayoutTerms, count_terms, log_seconds, resources
from cotune.modelling.layouts.setting import Setting
from cotune.types import Floats, Ints

_LOSS = RobustLoss(above=0.1, below=0.1, noise=0.03)
_FIXED = 1e-6  # deviation of what stays as it is


@dataclass(frozen=True, slots=True)
class PooledConstants:
    """Of the fit and the process; set by hand from what timing noise and laws' misses usually are."""

    loss: RobustLoss = _LOSS
    amplitude: float = 0.12
    common: float = 0.05  # of what all rows share
    noise: float = 0.01
    machine: float = 0.2  # of a machine's factor, as a deviation of its logarithm
    kernels: float = 0.3  # of a machine's factor of attention
    pace: float = _FIXED  # of the pace of a resource


POOLED = PooledConstants()
# of a machine that no table has: each of its resources has a pace of its own, a row far from the law is the law's fault
STRANGE = PooledConstants(loss=RobustLoss(above=1.0, below=1.0, noise=0.1), amplitude=0.2, pace=2.0)
RESOURCES = resources()


@dataclass(frozen=True)
class PooledSteps:
    """A law with its coefficients, and the process of what it misses."""

    theta: Floats  # coefficients, then the factors of machines
    machines: tuple[str, ...]
    points: Floats
    solved: Floats
    inverse: Floats
    doubt: Floats | None  # covariance of theta, of a strange machine
    constants: PooledConstants

    @classmethod
    def fit(
        cls, seen: Sequence[LayoutRows], constants: PooledConstants = POOLED, prior: LogPrior | None = None
    ) -> PooledSteps:
        """Return the law fitted to rows of any models and machines that ran, given a prior (the physical one)."""
        ran = [rows.take(rows.ran) for rows in seen]
        terms = LayoutTerms.joined([count_terms(rows.layouts, rows.setting) for rows in ran])
        seconds = np.concatenate([rows.seconds for rows in ran])
        machines = tuple(sorted({rows.setting.machine.name for rows in ran}))
        which = np.concatenate([np.full(len(rows.layouts), _place(machines, rows.setting)) for rows in ran])

        def law(at: Floats) -> Floats:
            return _law(at, terms, which)

        before, loss = _prior(prior, len(machines), constants), constants.loss
        theta = most_likely(law, seconds, before, loss)
        misses = np.log(seconds) - law(theta)
        weights = loss.weights(-misses)
        points = np.concatenate([_points(rows.layouts, rows.setting) for rows in ran])
        covariance = _covariance(points, points, constants) + np.diag(constants.noise**2 / weights**2)
        inverse: Floats = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        doubt = None
        if constants.pace > _FIXED:
            slopes = slopes_of(law, theta)
            precision: Floats = slopes.T @ slopes / loss.noise**2 + np.diag(1 / before.spread**2)
            doubt = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        return cls(theta, machines, points, inverse @ misses, inverse, doubt, constants)

    @property
    def coefficients(self) -> Floats:
        """Return the logarithms of the coefficients, before any factor of a machine."""
        return np.asarray(self.theta[: len(COEFFICIENTS)] + RESOURCES @ self.theta[-RESOURCES.shape[1] :])

    def predict(self, layouts: Layouts, setting: Setting) -> Floats:
        """Return 10th, 50th and 90th percentiles of the seconds of layouts, (layouts, 3)."""
        centre, deviation = self.expected(layouts, setting)
        return np.asarray(np.exp(centre[:, None] + 1.28 * deviation[:, None] * np.array([-1.0, 0.0, 1.0])))

    def expected(self, layouts: Layouts, setting: Setting) -> tuple[Floats, Floats]:
        """Return the logarithm of the seconds of layouts, and its deviation."""
        shared = _covariance(_points(layouts, setting), self.points, self.constants)
        centre = self._law(layouts, setting)(self.theta) + shared @ self.solved
        whole = np.full(len(layouts), self.constants.amplitude**2 + self.constants.common**2 + self.constants.noise**2)
        whole += 0.0 if setting.machine.name in self.machines else self.constants.machine**2
        if self.doubt is not None:
            slopes = self._slopes(layouts, setting)
            whole += np.sum((slopes @ self.doubt) * slopes, axis=1)
        deviation = np.sqrt(np.maximum(whole - np.sum((shared @ self.inverse) * shared, axis=1), 1e-8))
        return centre, deviation

    def covariance(self, parts: Sequence[tuple[Layouts, Setting]]) -> Floats:
        """Return that of the logarithms of seconds of layouts, each part's in turn, of strange machines."""
        assert self.doubt is not None
        points = np.concatenate([_points(*part) for part in parts])
        slopes = np.concatenate([self._slopes(*part) for part in parts])
        shared = _covariance(points, self.points, self.constants)
        process = _covariance(points, points, self.constants) - shared @ self.inverse @ shared.T
        return np.asarray(slopes @ self.doubt @ slopes.T + process)

    def _law(self, layouts: Layouts, setting: Setting) -> Logarithms:
        """Return the law of layouts on a machine, with the machine's factors where rows of it were seen."""
        terms, known = count_terms(layouts, setting), setting.machine.name in self.machines
        which = np.full(len(layouts), _place(self.machines, setting)) if known else None
        return lambda at: _law(at, terms, which)

    def _slopes(self, layouts: Layouts, setting: Setting) -> Floats:
        return slopes_of(self._law(layouts, setting), self.theta)


def _law(theta: Floats, terms: LayoutTerms, which: Ints | None) -> Floats:
    """Return the logarithm of seconds, of rows on these machines; None for a machine of which nothing is known."""
    count = RESOURCES.shape[1]
    factors, attention = theta[len(COEFFICIENTS) : -count].reshape(2, -1)
    coefficients = theta[: len(COEFFICIENTS)] + RESOURCES @ theta[-count:]
    if which is None:
        return log_seconds(coefficients, terms)
    layer = terms.layer.copy()
    layer[:, ATTENTION] *= np.exp(attention[which])
    return np.asarray(log_seconds(coefficients, replace(terms, layer=layer)) + factors[which])


def _place(machines: Sequence[str], setting: Setting) -> int:
    return list(machines).index(setting.machine.name)


def _prior(given: LogPrior | None, machines: int, constants: PooledConstants) -> LogPrior:
    """Return a prior with the factors of machines (one alone has none) and the paces of resources."""
    prior = LogPrior.of(COEFFICIENTS) if given is None else given
    spreads = np.array([constants.machine, constants.kernels]) if machines > 1 else np.full(2, _FIXED)
    paces = np.full(RESOURCES.shape[1], constants.pace)
    return LogPrior(
        np.concatenate([prior.centre, np.zeros(2 * machines + len(paces))]),
        np.concatenate([prior.spread, np.repeat(spreads, machines), paces]),
    )


def _covariance(one: Floats, other: Floats, constants: PooledConstants) -> Floats:
    return constants.amplitude**2 * alike(one, other) + constants.common**2


def _points(layouts: Layouts, setting: Setting) -> Floats:
    """Return layouts as points: doublings over the scales on which rows are alike."""
    model = setting.model
    ones = np.ones(len(layouts))
    columns = (
        np.log2(model.hidden * ones) / 1.5,
        np.log2(model.seq_len * ones) / 3,
        np.log2(model.seq_len * layouts.micro_batch) / 3,
        np.log2(layouts.gpus) / 3,
        layouts.recompute * 1.0,
        layouts.shard * 0.5,
        np.log2(layouts.tp) / 2,
        np.log2(layouts.pp) / 3,
        np.log2(setting.machine.flops * ones),
    )
    return np.stack(columns, axis=1)
