"""Epoch seconds of many configs: median, spread of the logarithm, and where they come from.

    ln seconds ~ normal(ln median, spread)

A model that knows its own spread is taken at its word. For any other the spread is what is usual of published laws, and
wider while configs are few and for each doubling outside what was measured. To all of it comes the spread between
starts of one config (`starts.py`): what is foretold is one more start, not the mean of many. A value of a named axis
that never ran is assumed. A config that was measured is the average of its measurement and of the law, each weighted by
how far it can be trusted; a law that misses it by more than chance allows has no weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotune.forecast import Sources
from cotune.predict import SecondsModel, WithErrors
from cotune.predict.predictors.gaussian import Axes, GaussianModel
from cotune.predict.samples import Timings, timings
from cotune.predict.scatter import Scatter
from cotune.predict.starts import between_repeats, between_sittings
from cotune.space import Configs
from cotune.types import Floats, Mask, Sample

# Deviations of ln seconds. Those of laws without a spread are what laws of papers miss on our own recordings, Pollux
# and MLPerf.
_USUAL, _FEW = 0.12, 0.6  # of a law through many configs, and what is added to it, divided by their number
_PER_DOUBLING = 0.10  # of such a law, outside what was measured
_ASSUMED = 0.45  # of the law of physics with its usual coefficients, through one config: the same sources
_NEW_WORD = 0.75  # of a value of a named axis that never ran: bf16 over fp32 is 0.6 to 4.5 times as fast on an H200
_UNEVEN = 0.06  # of workers that fill their nodes unevenly, whose places are chance: Pollux's other placements
_CHANCE = 3.0  # such deviations by which a law may miss a measurement


@dataclass(frozen=True)
class SecondsOutlook:
    """A fitted law of epoch seconds with what is known of its errors."""

    model: SecondsModel
    axes: Axes
    measured: Timings
    assumed: bool
    """Whether it goes through a single config."""
    starts: Scatter

    def predict(self, configs: Configs) -> tuple[Floats, Floats, Sources]:
        """Return the median, the spread of the logarithm and the source of each config."""
        doublings, words = self._outside(configs)
        with np.errstate(divide="ignore", invalid="ignore"):
            if isinstance(self.model, WithErrors):
                median, law = self.model.outlook(configs)
            else:
                few = np.hypot(_USUAL, _FEW / self.measured.configs.length)
                median, law = self.model.predict(configs), few + _PER_DOUBLING * doublings
        assumed = words | self.assumed
        law = np.sqrt(law**2 + (_NEW_WORD * words) ** 2 + (_UNEVEN * self._uneven(configs)) ** 2)
        law = np.hypot(law, _ASSUMED * self.assumed)
        outside = (doublings > 0) | self._beyond_own(configs)
        source = np.where(assumed, "assumed", np.where(outside, "extrapolated", "interpolated")).astype(object)
        spread = np.hypot(law, self.starts.deviation)
        self._put_measured(configs, median, law, spread, source)
        median[~configs.valid] = np.inf
        return median, spread, source

    def _outside(self, configs: Configs) -> tuple[Floats, Mask]:
        """Return the doublings outside the box that was measured, and whether a word is new."""
        seen, wished = self.axes.numbers(self.measured.configs), self.axes.numbers(configs)
        beyond = np.maximum(seen.min(axis=0) - wished, 0.0) + np.maximum(wished - seen.max(axis=0), 0.0)
        new: Mask = np.any(self.axes.words(configs) < 0, axis=1)
        return beyond.sum(axis=1), new

    def _uneven(self, configs: Configs) -> Mask:
        """Return which configs take several nodes, and of one of them a part."""
        per_node = self.axes.per_node
        if not per_node:
            return np.zeros(configs.length, dtype=bool)
        return np.asarray((configs.workers > per_node) & (configs.workers % per_node != 0))

    def _beyond_own(self, configs: Configs) -> Mask:
        """Return which configs have a batch outside those that their own words were measured with."""
        seen, wished = self.axes.words(self.measured.configs), self.axes.words(configs)
        ran, asked = self.measured.configs.batch_size, configs.batch_size
        beyond = np.zeros(configs.length, dtype=bool)
        for value in np.unique(seen, axis=0):
            own, rows = ran[(seen == value).all(axis=1)], (wished == value).all(axis=1)
            beyond |= rows & ((asked < own.min()) | (asked > own.max()))
        return beyond

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
    measured = timings(samples)
    starts = model.starts if isinstance(model, GaussianModel) else between_repeats(samples)
    axes = Axes.of(measured.configs, per_node)
    return SecondsOutlook(model, axes, measured, assumed, starts.wider(between_sittings(samples)))
