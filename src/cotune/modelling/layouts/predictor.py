"""Forecasts of layouts: laws fitted to other models first, then to the few layouts of this one that were measured.

1. Coefficients of both laws are fitted to all rows of other models, with physical priors.
2. They are the prior of this model's coefficients, fitted to its own few rows.
3. Stalled runs of other models are told apart (`stalls.py`), and the residual process learns what is left.
4. Intervals are the spread of other models' residuals at layouts that are alike (a straggler's tail included).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

import numpy as np

from cotune.modelling.layouts.crashes import KINDS, TriedLayouts, crash_shares, kinds, p_counted, p_memory
from cotune.modelling.layouts.fitting import LogPrior, RobustLoss, most_likely
from cotune.modelling.layouts.layout import Layouts, allowed
from cotune.modelling.layouts.memory import count_memory, log_memory
from cotune.modelling.layouts.priors import LayoutPriors
from cotune.modelling.layouts.residual import (
    OF_MEMORY,
    OF_SECONDS,
    LearntFrom,
    OtherModels,
    ResidualConstants,
    Residuals,
    alike,
    features,
)
from cotune.modelling.layouts.seconds import count_terms, log_seconds
from cotune.modelling.layouts.setting import Setting
from cotune.modelling.layouts.stalls import Stalls
from cotune.types import Floats, Ints, Mask


@dataclass(frozen=True, slots=True)
class LayoutRows:
    """Tried layouts of one model: seconds and GiB where they ran, nothing where they crashed (not a number)."""

    setting: Setting
    layouts: Layouts
    seconds: Floats
    gib: Floats

    @property
    def ran(self) -> Mask:
        return np.isfinite(self.seconds)

    def take(self, rows: Ints | Mask) -> LayoutRows:
        return LayoutRows(self.setting, self.layouts.take(rows), self.seconds[rows], self.gib[rows])


# How the losses bend, and how far a model's coefficients may lie from other models'; chosen leaving models out.
SECONDS_LOSS = RobustLoss(above=0.08, below=0.2, noise=0.08)
MEMORY_LOSS = RobustLoss(above=0.15, below=0.1, noise=0.1)
_OWN_NOISE = 0.04  # of a model's own few rows, in both laws
_BETWEEN_MODELS = 0.15  # of a coefficient, as a deviation of its logarithm


@dataclass(frozen=True, slots=True)
class LayoutForecasts:
    """What is expected of layouts: 10th, 50th and 90th percentile of seconds and GiB, and whether they run."""

    seconds: Floats  # (layouts, 3)
    gib: Floats  # (layouts, 3)
    p_memory: Floats
    p_fits: Floats
    rate: Floats  # steps a second that are expected of a run, which may stall


_QUANTILES = (0.1, 0.5, 0.9)
_STALLED_WEIGHT = 0.02  # of a stalled run's residual
_UNKNOWN = 0.25  # half an interval's width, of a logarithm, where no other model was ever measured
Law = Callable[[Floats], Floats]


@dataclass(frozen=True)
class FittedLaw:
    """One of the two laws with its coefficients and its residual process."""

    theta: Floats
    process: Residuals
    per_node: int

    def expected(self, law: Floats, layouts: Layouts) -> tuple[Floats, Floats]:
        """Return the logarithm of the quantity, of which the law alone expects this, and its deviation."""
        mean, deviation = self.process.expected(self._points(layouts))
        return law + mean, deviation

    def quantiles(self, centre: Floats, deviation: Floats, layouts: Layouts) -> Floats:
        """Return 10th, 50th and 90th percentiles: residuals of layouts alike, widened by what the process doubts."""
        others = self.process.others
        doubt = 1.28 * deviation[:, None] * np.array([-1.0, 0.0, 1.0])
        offsets = np.tile([-_UNKNOWN, 0.0, _UNKNOWN], (len(centre), 1))
        if len(others.seen.residuals):
            near = alike(self._points(layouts), others.seen.points) ** 2 + 1e-6
            offsets = _weighted_quantiles(others.unexplained, near, _QUANTILES)
            offsets = np.column_stack([np.minimum(offsets[:, 0], 0), offsets[:, 1] * 0, np.maximum(offsets[:, 2], 0)])
        return np.asarray(np.exp(centre[:, None] + np.sign(doubt) * np.sqrt(offsets**2 + doubt**2)))

    def _points(self, layouts: Layouts) -> Floats:
        return features(layouts, self.per_node, self.process.others.constants)


def _weighted_quantiles(values: Floats, weights: Floats, shares: Sequence[float]) -> Floats:
    order = np.argsort(values)
    summed = np.cumsum(weights[:, order], axis=1)
    summed /= summed[:, -1:]
    return np.stack([values[order][np.argmax(summed >= share, axis=1)] for share in shares], axis=1)


@dataclass(frozen=True)
class LayoutPredictor:
    """Forecasts for one model, from other models' rows and its own."""

    setting: Setting
    seconds: FittedLaw
    memory: FittedLaw
    crashes: Floats  # of each kind of layout, the share
    stalls: Stalls

    def predict(self, layouts: Layouts) -> LayoutForecasts:
        """Return forecasts of layouts of this model."""
        law = log_seconds(self.seconds.theta, count_terms(layouts, self.setting))
        healthy = self.seconds.quantiles(*self.seconds.expected(law, layouts), layouts)
        per_node = self.setting.machine.per_node
        stalled = self.stalls.probability(layouts, per_node)
        rate = (1 - stalled) / healthy[:, 1] + stalled / (healthy[:, 1] + self.stalls.extra(layouts, per_node))
        counted = log_memory(self.memory.theta, count_memory(layouts, self.setting))
        centre, deviation = self.memory.expected(counted, layouts)
        # beyond the device's memory nothing was ever measured: there the count alone speaks
        centre = np.where(counted > np.log(self.setting.machine.gib), counted, centre)
        suffices = p_memory(centre, self.setting.machine.gib, deviation)
        shares = self.crashes[kinds(layouts, per_node)]
        return LayoutForecasts(
            seconds=self.stalls.told(healthy, layouts, per_node),
            gib=self.memory.quantiles(centre, deviation, layouts),
            p_memory=suffices,
            p_fits=suffices * (1 - shares) * allowed(layouts, self.setting),
            rate=rate,
        )


@dataclass(frozen=True)
class LayoutLearner:
    """Other models' rows, fitted once; `fit` adds a model's own few."""

    others: Sequence[LayoutRows]
    priors: LayoutPriors = field(default_factory=LayoutPriors.physical)

    @cached_property
    def _ran(self) -> list[LayoutRows]:
        return [rows.take(rows.ran) for rows in self.others]

    @cached_property
    def _law_of_seconds(self) -> SharedLaw:
        parts = [(rows, rows.seconds) for rows in self._ran]
        return _shared(self.priors.seconds, _seconds_law, parts, SECONDS_LOSS, OF_SECONDS)

    @cached_property
    def _stalls(self) -> tuple[Stalls, Floats]:
        """Return how runs stall, and what that explains of each row of other models, a logarithm."""
        if not self._ran:
            return self.priors.stalls, np.zeros(0)
        layouts = reduce(Layouts.and_then, [rows.layouts for rows in self._ran])
        per_node = self._ran[0].setting.machine.per_node
        measured = np.concatenate([rows.seconds for rows in self._ran])
        law = measured / np.exp(self._law_of_seconds.others.seen.residuals)
        stalls, chance = self.priors.stalls.fit(layouts, per_node, law, measured)
        return stalls, np.log1p((chance > 0.5) * stalls.extra(layouts, per_node) / law)

    @cached_property
    def _seconds(self) -> SharedLaw:
        shared, (_, explained) = self._law_of_seconds, self._stalls
        seen = shared.others.seen
        left = seen.residuals - explained
        # how long a stalled run takes is known less exactly
        weights = SECONDS_LOSS.weights(-left) * np.where(explained > 0, _STALLED_WEIGHT, 1.0)
        healthy = replace(seen, residuals=left, weights=weights)
        return SharedLaw(shared.prior, OtherModels(healthy, OF_SECONDS))

    @cached_property
    def _memory(self) -> SharedLaw:
        weighed = [rows.take(np.isfinite(rows.gib)) for rows in self._ran]
        parts = [(rows, rows.gib) for rows in weighed if len(rows.gib)]
        return _shared(self.priors.memory, _memory_law, parts, MEMORY_LOSS, OF_MEMORY)

    def shared(self) -> tuple[Floats, Floats]:
        """Return the logarithms of the coefficients of seconds and memory as the other models together have them."""
        return self._seconds.prior.centre, self._memory.prior.centre

    @property
    def stalls(self) -> Stalls:
        """Return how runs of the other models stall."""
        return self._stalls[0]

    def fit(self, own: LayoutRows) -> LayoutPredictor:
        """Return forecasts of a model of which these layouts were tried."""
        ran = own.take(own.ran)
        seconds = self._quantity(self._seconds, _seconds_law(ran), ran, ran.seconds)
        weighed = ran.take(np.isfinite(ran.gib))
        memory = self._quantity(self._memory, _memory_law(weighed), weighed, weighed.gib)
        bare = LayoutPredictor(own.setting, seconds, memory, np.zeros(KINDS), self.stalls)
        built = allowed(own.layouts, own.setting)
        tried = _tried(own, bare.predict(own.layouts).p_memory * built)
        return replace(bare, crashes=crash_shares(tried, self._crashed))

    def _quantity(self, shared: SharedLaw, law: Law, ran: LayoutRows, measured: Floats) -> FittedLaw:
        # a law that no other model has corrected misses more
        noise = _OWN_NOISE if self._ran or self.priors.models else SECONDS_LOSS.noise
        loss = RobustLoss(above=noise, below=SECONDS_LOSS.below, noise=noise)
        theta = most_likely(law, measured, shared.prior, loss)
        misses = np.log(measured) - law(theta)
        per_node = ran.setting.machine.per_node
        own = LearntFrom(features(ran.layouts, per_node, shared.others.constants), misses, loss.weights(-misses))
        return FittedLaw(theta, Residuals(shared.others, own), per_node)

    @cached_property
    def _crashed(self) -> TriedLayouts:
        """Return what other models' tries say of crashes, memory as the law fitted to them all counts it."""
        theta = self._memory.prior.centre
        parts = [_tried(rows, p_counted(theta, rows.layouts, rows.setting)) for rows in self.others]
        return TriedLayouts(
            np.concatenate([np.zeros(0, dtype=np.int64), *(part.kinds for part in parts)]),
            np.concatenate([np.zeros(0, dtype=bool), *(part.ran for part in parts)]),
            np.concatenate([np.zeros(0), *(part.p_memory for part in parts)]),
        )


@dataclass(frozen=True)
class SharedLaw:
    """A law fitted to other models: the prior of the next one, and the process of what it misses on them."""

    prior: LogPrior
    others: OtherModels


def _seconds_law(rows: LayoutRows) -> Law:
    terms = count_terms(rows.layouts, rows.setting)
    return lambda theta: log_seconds(theta, terms)


def _memory_law(rows: LayoutRows) -> Law:
    counted = count_memory(rows.layouts, rows.setting)
    return lambda theta: log_memory(theta, counted)


def _tried(rows: LayoutRows, suffices: Floats) -> TriedLayouts:
    return TriedLayouts(kinds(rows.layouts, rows.setting.machine.per_node), rows.ran, suffices)


def _shared(
    physical: LogPrior,
    law_of: Callable[[LayoutRows], Law],
    parts: list[tuple[LayoutRows, Floats]],
    loss: RobustLoss,
    constants: ResidualConstants,
) -> SharedLaw:
    """Return the law fitted to all other models, as the prior of one more, and what it misses on them."""
    if not parts:
        nothing = LearntFrom(np.zeros((0, len(constants.scales))), np.zeros(0), np.zeros(0))
        return SharedLaw(physical, OtherModels(nothing, constants))
    laws = [law_of(rows) for rows, _ in parts]
    together = np.concatenate([measured for _, measured in parts])
    theta = most_likely(lambda at: np.concatenate([law(at) for law in laws]), together, physical, loss)
    misses = np.log(together) - np.concatenate([law(theta) for law in laws])
    points = [features(rows.layouts, rows.setting.machine.per_node, constants) for rows, _ in parts]
    models = np.repeat(np.arange(len(parts)), [len(measured) for _, measured in parts])
    seen = LearntFrom(np.concatenate(points), misses, loss.weights(-misses), models)
    prior = LogPrior(theta, np.minimum(physical.spread, _BETWEEN_MODELS))
    return SharedLaw(prior, OtherModels(seen, constants))
