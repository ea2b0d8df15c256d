"""Epoch seconds of many configs: median, spread of the logarithm, and where they come from.

    ln seconds ~ normal(ln median, spread)

Inside what was measured the spread is that of the errors on configs left out (their 80 %
quantile, wider while configs are few), never below the noise of a clock.
Each doubling of workers or batch outside it adds to the spread, as does a first step across
nodes. A config that was measured is the average of its measurement and of the law, each
weighted by how far it can be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotune.forecast import Sources
from cotune.predict import SecondsModel
from cotune.predict._groups import Groups
from cotune.predict._layout import nodes
from cotune.predict._samples import Timings, per_step, timed, timings
from cotune.space import Configs
from cotune.types import Floats, Sample

NOISE = 0.03  # of one measurement of an epoch, as a standard deviation of the logarithm
_USUAL = 0.12  # spread of a law's error while nothing is known of it
_FEW = 0.6  # what is added to it, divided by the configs measured
_PER_DOUBLING = 0.10
_NEW_LEVEL = 0.35  # first step from one node to several, or from one worker to several
_NEW_GROUP = 0.35
_ASSUMED = 0.35
_EIGHTY = 1.2816  # standard deviations on each side that hold 80 %


@dataclass(frozen=True)
class SecondsOutlook:
    """A fitted law of epoch seconds with what is known of its errors."""

    model: SecondsModel
    groups: Groups
    measured: Timings
    spread: float
    per_node: int | None
    assumed: bool

    def predict(self, configs: Configs) -> tuple[Floats, Floats, Sources]:
        """Return the median, the spread of the logarithm and the source of each config."""
        factor, known_group = self.groups.logs(configs)
        with np.errstate(divide="ignore", invalid="ignore"):
            median = self.model.predict(configs) * np.exp(factor)
        base = np.hypot(self.spread, _ASSUMED) if self.assumed else self.spread
        outside = self._outside(configs)
        wider = _PER_DOUBLING * outside + _NEW_LEVEL * self._new_level(configs) + _NEW_GROUP * ~known_group
        spread = np.hypot(base, wider)
        beyond = (outside > 0) | self._new_level(configs) | ~known_group
        source = np.where(beyond, "extrapolated", "interpolated").astype(object)
        if self.assumed:
            source[:] = "assumed"
        self._put_measured(configs, median, spread, source)
        median[~configs.valid] = np.inf
        return median, spread, source

    def _outside(self, configs: Configs) -> Floats:
        """Return the doublings of batch and workers outside the box that was measured."""
        seen = self.measured.configs
        return _doublings(per_step(configs), per_step(seen)) + _doublings(configs.workers, seen.workers)

    def _new_level(self, configs: Configs) -> npt.NDArray[np.bool_]:
        """Return which configs use a link that no measured one did: between workers, or nodes."""
        seen = self.measured.configs
        first_node = (nodes(configs, self.per_node) > 1) & (nodes(seen, self.per_node).max() <= 1)
        first_pair = (configs.workers > 1) & (seen.workers.max() <= 1)
        result: npt.NDArray[np.bool_] = first_node | first_pair
        return result

    def _put_measured(self, configs: Configs, median: Floats, spread: Floats, source: Sources) -> None:
        for row, config in enumerate(self.measured.configs):
            same = np.flatnonzero(_equal(configs, self.measured.configs, row))
            same = same[[configs[int(place)] == config for place in same]] if len(same) else same
            noise = NOISE / np.sqrt(self.measured.repeats[row])
            trust = spread[same] ** 2 / (spread[same] ** 2 + noise**2)
            logs = trust * np.log(self.measured.seconds[row]) + (1 - trust) * np.log(median[same])
            median[same] = np.exp(logs)
            spread[same] = np.hypot(NOISE, np.sqrt(trust) * noise)
            source[same] = "measured"


def seconds_outlook(
    model: SecondsModel,
    groups: Groups,
    samples: Sequence[Sample],
    errors: Floats,
    per_node: int | None,
    *,
    assumed: bool,
) -> SecondsOutlook:
    """Return the outlook of a law whose log errors on configs left out are known."""
    measured = timings(timed(samples))
    return SecondsOutlook(model, groups, measured, _spread(errors, measured.configs.length), per_node, assumed)


def _spread(errors: Floats, configs: int) -> float:
    own = _high_quantile(np.abs(errors)) / _EIGHTY if len(errors) else _USUAL
    return float(np.sqrt(max(own, NOISE) ** 2 + (_FEW / configs) ** 2))


def _high_quantile(sizes: Floats) -> float:
    """Return the size that 80 % of further errors should stay below."""
    return float(np.quantile(sizes, min(1.0, 0.8 * (1 + 1 / len(sizes))), method="higher"))


def _doublings(values: npt.NDArray[np.int64], seen: npt.NDArray[np.int64]) -> Floats:
    logs = np.log2(np.maximum(values, 1))
    low, high = np.log2(seen.min()), np.log2(seen.max())
    result: Floats = np.maximum(low - logs, 0.0) + np.maximum(logs - high, 0.0)
    return result


def _equal(configs: Configs, others: Configs, row: int) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_] = configs.workers == others.workers[row]
    same &= configs.batch_size == others.batch_size[row]
    same &= configs.accumulate == others.accumulate[row]
    return same
