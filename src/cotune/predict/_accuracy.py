"""Accuracy of many recipes after each epoch: median, spread, and where it comes from.

    spread^2 = noise^2 + run^2 + (shift x slope)^2 + between^2 + beyond^2

noise    the roughness of the measured curves, and the scatter of repeated ones
run      two runs of one recipe end some per cent of the range apart, as on other jobs
shift    two runs of one recipe reach a target some per cent of epochs apart
between  grows with the doublings to the nearest measured batch; the errors on batches left
         out say how fast
beyond   grows with the doublings of epochs after the end of the measured curves; the errors
         on their later halves say how fast

A run stops at the first evaluation that meets its target, so what counts is the best so
far: of n evaluations on a plateau the best lies  noise x z(2^(-1/n))  above it. Where a
recipe was measured, its own evaluations are taken instead. What one evaluation shows is told apart.

A run that goes on from a probe has that probe's past: up to where its curve ends nothing is left to chance.
Where training went on and no evaluation came any more, none is expected.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtri

from cotune.forecast import Sources
from cotune.predict import AccuracyModel
from cotune.predict._fits import KEPT
from cotune.predict._samples import Curve, by_global_batch, curves
from cotune.predict._validation import AccuracyErrors
from cotune.predict.curve import fallen, natural_ceiling, roughness
from cotune.reuse import Kept
from cotune.space import Configs
from cotune.types import Config, Floats, Ints, Job, Sample

_SHIFT = 0.06  # of ln epochs to a target, over seeds
# Measured on recordings by benchmarks/calibration.py, each recording left out in turn:
_RUN = 0.015  # of the range of accuracies, between runs
_BETWEEN = 0.8  # of the errors at batches left out: the nearest batch left is farther than it will be
_LEAST_NOISE = 0.003  # of the range of accuracies
_UNKNOWN_BATCH = 0.10  # of that range, for each doubling, while one batch was measured
_UNKNOWN_LATER = 0.70  # of that range, for each doubling, while curves are too short to hide a part of them
_CERTAIN = 1e-9  # of that range: what is left to doubt of a curve that is gone on with
_NEVER = 10.0  # below all that was shown, in the range of what was
_COLLAPSED = 0.25  # of that range, around a curve that collapsed
_FEW_REPEATS = 16  # of a batch: of more, each is held against the next alone
_OUTSIDE = 1.5  # how much faster than between batches the spread grows outside them


@dataclass(frozen=True, slots=True)
class Learning:
    """Accuracy of recipes (rows) after epochs (columns): the best so far, and what one evaluation shows."""

    best: Floats
    spread: Floats
    evaluation: Floats
    evaluation_spread: Floats
    source: Sources  # of each recipe


@dataclass(frozen=True, eq=False)
class AccuracyOutlook:
    """A fitted law of accuracy with what is known of its errors; the same only as itself."""

    model: AccuracyModel
    found: tuple[Curve, ...]
    range: float
    ceiling: float  # what no draw can pass
    noise: float
    per_batch: float  # spread for each doubling away from a measured batch
    per_epoch: float  # spread for each doubling after the end of the measured curves
    assumed: bool
    going: Mapping[int, Curve] = field(default_factory=dict)  # by global batch: what a run of it goes on from

    def with_past(self, job: Job, samples: Sequence[Sample]) -> AccuracyOutlook:
        """Return the same outlook for runs that go on from what these samples left.

        Where a recording judges a run by several seeds, the one that a probe drew is not its past.
        """
        if job.seeds > 1:
            return self
        left = Kept.among(samples).best.values()
        return _going_on(self, tuple(curves(job, [sample])[0] for sample in left))

    def predict(self, configs: Configs, max_epochs: int) -> Learning:
        """Return what each recipe (rows) learns by epoch 1, 2, ... (columns)."""
        epochs = np.arange(1.0, max_epochs + 1)
        median = self.model.predict(configs, epochs)
        wished = np.log2(np.maximum(configs.global_batch, 1).astype(np.float64))
        places, ends, broken = self._measured()
        away = np.abs(wished[:, None] - places[None, :]).min(axis=1)
        outside = (wished < places[0]) | (wished > places[-1])
        end = np.interp(wished, places, ends)
        between = self.per_batch * away * np.where(outside, _OUTSIDE, 1.0)
        between += _COLLAPSED * self.range * np.interp(wished, places, broken)
        beyond = self.per_epoch * np.maximum(np.log2(epochs)[None, :] - end[:, None], 0.0)
        slope = np.abs(np.gradient(median, np.log(epochs), axis=1)) if max_epochs > 1 else np.zeros_like(median)
        best, tries = self._best(median)
        variance = (_SHIFT * slope) ** 2 + between[:, None] ** 2 + beyond**2
        spread = np.sqrt(variance + self.noise**2 / tries)
        best += self._shared(wished, places, epochs)
        np.minimum(best, self.ceiling, out=best)
        self._put_certain(wished, best, spread)
        # A job that is first evaluated after some epochs meets no target before.
        first = min(float(curve.epochs[0]) for curve in self.found)
        if first <= max_epochs:
            best[:, epochs < first] = min(float(np.min(curve.accuracy)) for curve in self.found) - _NEVER * self.range
        source = np.where(away == 0, "measured", np.where(outside, "extrapolated", "interpolated")).astype(object)
        source[end + 1 < np.log2(max_epochs)] = "extrapolated"
        if self.assumed:
            source[:] = "assumed"
        other = variance + (_RUN * self.range) ** 2 + self.noise**2
        return Learning(best, spread, median, np.sqrt(other), source)

    def _best(self, median: Floats) -> tuple[Floats, Ints]:
        """Return the best of all evaluations so far by the law, and of how many that are as good."""
        tries = _on_plateau(median, self.noise)
        lift = self.noise * ndtri(0.5 ** (1 / np.arange(1.0, median.shape[1] + 1)))  # of the best of 1, 2, ... tries
        return np.minimum(median + lift[tries - 1], self.ceiling), tries

    def _shared(self, wished: Floats, places: Floats, epochs: Floats) -> Floats:
        """Return how much better than by the law the best is: as measured, and straight in ln B between batches."""
        found = [self._better(batch, epochs) for batch in self._by_batch]
        own, others = (np.stack(part) for part in zip(*found, strict=True))
        at = np.interp(wished, places, np.arange(len(places), dtype=np.float64))
        below = np.floor(at).astype(np.int64)
        above = np.minimum(below + 1, len(places) - 1)
        share = (at - below)[:, None]
        between = (1 - share) * others[below] + share * others[above]
        return np.where(np.isin(wished, places)[:, None], own[below], between)

    def _better(self, batch: int, epochs: Floats) -> tuple[Floats, Floats]:
        """Return how much better than by the law the best of a measured batch is, and what that tells of others.

        What it was at the end stays. An evaluation below the law is bad luck, which others do not share.
        """
        same = self._same(batch)
        furthest = max(same, key=lambda curve: float(curve.epochs[-1]))
        config = Config.data_parallel(furthest.batch_size, max(1, batch // furthest.batch_size))
        middle = self.model.predict(Configs.of([config]), epochs)
        law = self._best(middle)[0][0]
        # A curve says nothing of epochs that it did not reach.
        each = np.array([np.interp(epochs, c.epochs, c.accuracy, left=np.nan, right=np.nan) for c in same])
        told = np.flatnonzero(np.isfinite(each).any(axis=0))
        if len(told) == 0:
            return np.zeros(len(epochs)), np.zeros(len(epochs))
        shown = np.maximum.accumulate(np.nanmean(each[:, told], axis=0))
        own = np.interp(epochs, epochs[told], shown - law[told], left=0.0)
        others = np.maximum(own, middle[0] - law)
        if furthest.silent:  # whatever is learnt later, no evaluation will show
            later = epochs > epochs[told[-1]]
            own[later] = others[later] = shown[-1] - law[later]
        return own, others

    @cached_property
    def _by_batch(self) -> dict[int, list[Curve]]:
        return by_global_batch(self.found)

    def _same(self, batch: int) -> list[Curve]:
        """Return the curves that tell of a batch: the one that a run goes on from, or else all."""
        own = self.going.get(batch)
        return self._by_batch[batch] if own is None else [own]

    def _put_certain(self, wished: Floats, best: Floats, spread: Floats) -> None:
        """Leave nothing to chance of the past of a run that goes on, a target that was just met included."""
        epochs = np.arange(1.0, best.shape[1] + 1)
        for batch, curve in self.going.items():
            rows = np.flatnonzero(np.abs(wished - np.log2(batch)) < 1e-9)
            past = np.flatnonzero((epochs >= curve.epochs[0]) & ((epochs <= curve.epochs[-1]) | curve.silent))
            best[np.ix_(rows, past)] += 5 * _CERTAIN * self.range
            spread[np.ix_(rows, past)] = _CERTAIN * self.range

    def _measured(self) -> tuple[Floats, Floats, Floats]:
        """Return log2 of the measured batches, of where their curves end, and which collapsed."""
        of = self._by_batch.values()
        ends = [max(float(curve.epochs[-1]) for curve in same) for same in of]
        broken = [float(np.mean([fallen(curve, _COLLAPSED) for curve in same])) for same in of]
        return np.log2(list(self._by_batch)), np.log2(ends), np.array(broken)


@lru_cache(KEPT)
def _going_on(outlook: AccuracyOutlook, left: tuple[Curve, ...]) -> AccuracyOutlook:
    return replace(outlook, going={curve.global_batch: curve for curve in left})


def _on_plateau(median: Floats, noise: float) -> Ints:
    """Return for each epoch how many evaluations so far lay within the noise of it, itself included."""
    best = np.maximum.accumulate(median, axis=1)
    before = np.array([np.searchsorted(curve, least) for curve, least in zip(best, best - noise, strict=True)])
    return np.asarray(np.maximum(np.arange(1, best.shape[1] + 1) - before, 1), dtype=np.int64)


def accuracy_outlook(
    model: AccuracyModel, job: Job, samples: Sequence[Sample], errors: AccuracyErrors, *, assumed: bool
) -> AccuracyOutlook:
    """Return the outlook of a law whose errors on what was left out are known."""
    found = curves(job, samples)
    values = np.concatenate([curve.accuracy for curve in found])
    span = float(np.ptp(values)) or 0.1 * float(np.abs(values).max()) or 1.0
    noise = max(_LEAST_NOISE * span, float(np.median([roughness(curve) for curve in found])), _scatter(found))
    per_batch = _BETWEEN * _size(errors.batch) / _size(errors.away) if len(errors.batch) else _UNKNOWN_BATCH * span
    per_epoch = _size(errors.later) if len(errors.later) else _UNKNOWN_LATER * span
    return AccuracyOutlook(model, tuple(found), span, natural_ceiling(job, found), noise, per_batch, per_epoch, assumed)


def _size(errors: Floats) -> float:
    return float(np.sqrt((errors**2).mean()))


def _scatter(found: Sequence[Curve]) -> float:
    """Return the deviation between repeated curves of one batch, at the epochs they share."""
    gaps = [
        np.abs(one.accuracy[shared[1]] - other.accuracy[shared[2]]).mean() / np.sqrt(2) * 1.25
        for same in by_global_batch(found).values()
        for one, other in (itertools.combinations(same, 2) if len(same) <= _FEW_REPEATS else itertools.pairwise(same))
        if len((shared := np.intersect1d(one.epochs, other.epochs, return_indices=True))[0])
    ]
    return float(np.mean(gaps)) if gaps else 0.0
