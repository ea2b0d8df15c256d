"""Epoch seconds of many configs: median, spread of the logarithm, and where they come from.

    ln seconds ~ normal(ln median, spread)

A model that knows its own spread is taken at its word, times one factor: how large its errors on configs left out are
beside what it expected, shrunk to what other jobs showed. It is never surer of a config than those errors are large.
For any other model the spread is what is usual of published laws, and wider while configs are few.

To all of it comes the spread between starts of one config (`starts.py`): what is told is one more start, not the mean
of many. Each doubling of workers, batch or a numeric axis outside what was measured adds to the spread, as does a value
of a named axis that never ran, which is assumed; where a model does not know its own spread more so, and a first step
across nodes too. A config that was measured is the average of its measurement and of the law, each weighted by how far
it can be trusted; a law that misses it by more than chance allows has no weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotune.forecast import Sources
from cotune.predict import SecondsModel, WithErrors
from cotune.predict.constants import CONSTANTS
from cotune.predict.features import Feature, columns, features_of
from cotune.predict.layout import nodes
from cotune.predict.samples import Timings, timed, timings
from cotune.predict.scatter import Scatter
from cotune.predict.starts import starts
from cotune.space import Configs
from cotune.types import Floats, Mask, Sample

_USUAL = 0.12  # spread of a law's error while nothing is known of it
_FEW = 0.6  # what is added to it, divided by the configs measured
_PER_DOUBLING = 0.10
_UNEVEN = 0.06  # workers that fill their nodes unevenly: where they come to lie is chance
_NEW_LEVEL = 0.35  # first step from one node to several, or from one worker to several
_NEW_WORD = 0.75  # a value of a named axis that never ran: bf16 over fp32 goes from 0.6 to 4.5 times as fast
_ASSUMED = 0.45  # the law with the coefficients that are usual, through one config: own recordings, Pollux and MLPerf
# Measured on recordings by benchmarks/calibration.py, each recording left out in turn:
_USUAL_SURPRISE = CONSTANTS.usual_surprise
_OTHER_JOBS = 16  # samples that what other jobs showed is worth
_PER_DOUBLING_MORE = 0.05  # what a process, which widens outside by itself, leaves out for each doubling
_FEW_CONFIGS = CONSTANTS.few_configs
_WILD = 4.0
_USUAL_ERROR = 0.05  # deviation of ln seconds by which configs left out are usually missed
_OTHER_ERRORS = 4  # configs left out that this is worth
_LEAST_ERROR = 0.002  # no clock is better
_ROBUST = 1.4826  # a deviation over the median of sizes
_LEAST_SPREAD = CONSTANTS.least_spread
_CHANCE = 3.0  # deviations by which a law may miss a measurement


@dataclass(frozen=True)
class SecondsOutlook:
    """A fitted law of epoch seconds with what is known of its errors."""

    model: SecondsModel
    features: tuple[Feature, ...]
    measured: Timings
    spread: float  # of any config, or the factor on what the model says of each
    per_node: int | None
    assumed: bool
    usual_error: float  # on configs left out, shrunk to other jobs'; infinite where the model has none
    starts: Scatter

    def predict(self, configs: Configs) -> tuple[Floats, Floats, Sources]:
        """Return the median, the spread of the logarithm and the source of each config."""
        median, inside = self._inside(configs)
        doublings, words = self._outside(configs)
        level = self._new_level(configs)
        wider = np.hypot(_NEW_WORD * words, _UNEVEN * self._uneven(configs))
        if isinstance(self.model, WithErrors):
            wider = wider + _PER_DOUBLING_MORE * doublings
        else:
            wider = wider + _PER_DOUBLING * doublings + _NEW_LEVEL * level
        law = np.hypot(inside, wider)
        outside = (doublings > 0) | level | self._beyond_own(configs)
        source = np.where(outside, "extrapolated", "interpolated").astype(object)
        source[words | self.assumed] = "assumed"
        spread = np.hypot(law, self.starts.deviation)
        if isinstance(self.model, WithErrors) and np.isfinite(self.usual_error):
            spread = np.maximum(spread, _LEAST_SPREAD * self.usual_error)
        self._put_measured(configs, median, law, spread, source)
        median[~configs.valid] = np.inf
        return median, spread, source

    def _inside(self, configs: Configs) -> tuple[Floats, Floats]:
        """Return the median and the spread of each config, not counting what lies outside."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if isinstance(self.model, WithErrors):
                median, own = self.model.outlook(configs)
                return median, np.hypot(self.spread * own, _ASSUMED) if self.assumed else self.spread * own
            median = self.model.predict(configs)
        return median, np.full(configs.length, self.spread)

    def _outside(self, configs: Configs) -> tuple[Floats, Mask]:
        """Return the doublings outside the box that was measured, and whether a word is new."""
        numbers = [feature for feature in self.features if feature.kind in ("batch", "workers", "number", "explained")]
        words = [feature for feature in self.features if feature.kind == "word"]
        seen, wished = columns(numbers, self.measured.configs), columns(numbers, configs)
        beyond = np.maximum(seen.min(axis=0) - wished, 0.0) + np.maximum(wished - seen.max(axis=0), 0.0)
        new: Mask = np.any(columns(words, configs) < 0, axis=1)
        return beyond.sum(axis=1), new

    def _uneven(self, configs: Configs) -> Mask:
        """Return which configs take several nodes, and of one of them a part."""
        if not self.per_node:
            return np.zeros(configs.length, dtype=bool)
        return np.asarray((configs.workers > self.per_node) & (configs.workers % self.per_node != 0))

    def _beyond_own(self, configs: Configs) -> Mask:
        """Return which configs have a batch outside those that their own words were measured with."""
        words = [feature for feature in self.features if feature.kind == "word"]
        batch = [feature for feature in self.features if feature.name == "batch_size"]
        seen, wished = columns(words, self.measured.configs), columns(words, configs)
        ran, asked = columns(batch, self.measured.configs)[:, 0], columns(batch, configs)[:, 0]
        beyond = np.zeros(configs.length, dtype=bool)
        for value in np.unique(seen, axis=0):
            own, rows = ran[(seen == value).all(axis=1)], (wished == value).all(axis=1)
            beyond |= rows & ((asked < own.min()) | (asked > own.max()))
        return beyond

    def _new_level(self, configs: Configs) -> Mask:
        """Return which configs use a link that no measured one did: between workers, or nodes."""
        seen = self.measured.configs
        first_node = (nodes(configs, self.per_node) > 1) & (nodes(seen, self.per_node).max() <= 1)
        first_pair = (configs.workers > 1) & (seen.workers.max() <= 1)
        result: Mask = first_node | first_pair
        return result

    def _put_measured(self, configs: Configs, median: Floats, law: Floats, spread: Floats, source: Sources) -> None:
        """Let measured configs follow their measurements, as far as these tell more than the law does."""
        for row, config in enumerate(self.measured.configs):
            same = np.flatnonzero(configs.same(config))
            noise = self.starts.deviation / np.sqrt(self.measured.repeats[row])
            missed = np.abs(np.log(self.measured.seconds[row] / median[same])) > _CHANCE * np.hypot(law[same], noise)
            trust = np.where(missed, 1.0, law[same] ** 2 / (law[same] ** 2 + noise**2))
            logs = trust * np.log(self.measured.seconds[row]) + (1 - trust) * np.log(median[same])
            median[same] = np.exp(logs)
            spread[same] = np.hypot(self.starts.deviation, np.sqrt(trust) * noise)
            source[same] = "measured"


def seconds_outlook(
    model: SecondsModel, samples: Sequence[Sample], per_node: int | None, *, assumed: bool
) -> SecondsOutlook:
    """Return the outlook of a law; `assumed` is one through a single config."""
    measured = timings(timed(samples))
    features = features_of(measured.configs, per_node)
    spread = float(np.hypot(_USUAL, _FEW / measured.configs.length))
    usual = np.inf
    if isinstance(model, WithErrors):
        spread, usual = _factor(model), np.inf if assumed else usual_error(model.errors)
    return SecondsOutlook(model, features, measured, spread, per_node, assumed, usual, starts(samples, usual))


def usual_error(errors: Floats) -> float:
    """Return the deviation by which configs left out are usually missed, shrunk to other jobs'.

    The worst of them count no more than others: they are what the process calls odd.
    """
    count = len(errors)
    own = np.log(max(_ROBUST * float(np.median(np.abs(errors))), _LEAST_ERROR))
    return float(np.exp((_OTHER_ERRORS * np.log(_USUAL_ERROR) + count * own) / (_OTHER_ERRORS + count)))


def _factor(model: WithErrors) -> float:
    """Return how much wider than it says a model's errors are: this job's, shrunk to other jobs'."""
    surprises = np.minimum(np.abs(model.surprises), _WILD) / _USUAL_SURPRISE
    count = len(surprises)
    own = np.sqrt((_OTHER_JOBS + float((surprises**2).sum())) / (_OTHER_JOBS + count))
    return float((1 + _FEW_CONFIGS / count) * own)
