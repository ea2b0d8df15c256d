"""A learning curve whose pace depends on the global batch B.

    accuracy(B, e) = A - C (u + u0)^-p           u = e / (1 + B / Bc + Bd / B)

u is progress in epochs of the best batch: beyond Bc larger batches need more epochs, below
Bd smaller ones do. Solved for the examples S that reach a target, this is the law of
samples-to-target, S(B) = s (1 + B / Bc + Bd / B) = a + c B + d / B. All curves share the six
coefficients, so one long curve tells how short ones go on. A and C have a closed form once the
other four are given; those are found on a grid that is refined around its best point, with
the weights of a robust (Huber) loss.

What the law leaves over is kept: the residual of each measured batch is added at its own
place and shared out between neighbours, straight in ln B. After the end of a curve its last
residual r stays, as far as it is one of level; where the law is steep it is one of pace instead,
and fades as the law flattens:

    r = level + law(e exp(shift)) - law(e)        shift = r slope / (slope^2 + LEVEL^2) at the end e

A curve that has collapsed or turned (`ends.py`) stays where it is: it never rises again.

Reference: McCandlish et al., An empirical model of large-batch training, arXiv:1812.06162, 2018.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cotune.bounds import NotNegative
from cotune.predict import AccuracyModel, TooFewSamples
from cotune.predict.batch_prior import BatchPrior, batch_prior
from cotune.predict.ends import before_turn, fallen, longest, turn
from cotune.predict.samples import CURVES, by_global_batch, curves, neighbours, spread_out
from cotune.predict.samples import LearningCurve as Measured
from cotune.space import Configs
from cotune.types import Floats, Job, Sample, Schedule

Number = Floats | float
_SHARE = re.compile(r"acc|top.?[15]|f1|precision|recall|auc|map|iou|bleu", re.IGNORECASE)  # in percent, above 1
_PERPLEXITY = re.compile(r"ppl|perplexity", re.IGNORECASE)
_MUCH = 0.25  # from which a share is told in parts of one: in per cent it would hardly be so little
_POINTS = 16  # of a curve that are fitted: averages over times that grow with the epoch
_SHORT = 3  # evaluations, which are fitted one by one: their mean tells nothing of where they go
_ROUNDS = 5
_LEVEL = 1 / 30  # of the range: how far batches differ in level, over how far in ln epochs (`accuracy.py`)
_MOST_SHIFT = float(np.log(2))
_HALF_AS_LONG = 0.1  # of the only value measured, that half of its epochs are assumed to take away
_MOST_POINTS, _FEWEST = 2048, 4  # of all curves together, and of each: more tell the law no better


@dataclass(frozen=True, slots=True)
class Curve:
    """One learning curve for all global batches, its pace slower for too large and too small ones."""

    collapse: NotNegative = 0.25

    def fit_accuracy(self, job: Job, samples: Sequence[Sample]) -> AccuracyModel:
        """Return sign x accuracy (B, e); `collapse` is the share of a rise whose loss is one."""
        try:
            found = curves(job, samples, least_points=2)
        except TooFewSamples:
            return Held.of(job, samples)
        told = Schedule.read(job.schedule or "unknown")
        steady = told.kind in ("constant", "unknown")  # the ends of annealed runs are no course that could turn
        rising = [before_turn(curve, self.collapse, turns=steady) for curve in found]
        floor, ceiling = _bounds(job, found)
        law = _fit(rising, ceiling, batch_prior(job))
        by_batch = by_global_batch(found)
        span = float(np.ptp(np.concatenate([curve.accuracy for curve in found])))
        ended = [_end(same, self.collapse, turns=steady) for same in by_batch.values()]
        left = tuple(_Left.of(law, *of, cap, span) for of, cap in zip(by_batch.items(), ended, strict=True))
        return _Model(law, floor, ceiling, np.log(list(by_batch)), left)


def _bounds(job: Job, found: Sequence[Measured]) -> tuple[float, float]:
    """Return where sign x metric must lie: 0 to 1 for a share, below 0 for a loss, near what was seen."""
    values = np.concatenate([curve.accuracy for curve in found])
    low, high = float(values.min()), float(values.max())
    margin = max(high - low, 0.05 * abs(high))
    floor = 0.0 if job.sign > 0 and low >= 0 and high <= 1 else -np.inf
    return max(low - margin, floor), min(high + margin, natural_ceiling(job, values))


def natural_ceiling(job: Job, values: Floats) -> float:
    """Return what sign x metric cannot pass, some values of it given.

    That is 1 or 100 where it is like a share, 0 where it is like minus a loss, -1 of a perplexity.
    """
    low, high = float(values.min()), float(values.max())
    if job.sign > 0 and low >= 0 and high <= 1:
        return 1.0
    if job.sign > 0 and low >= 0 and high <= 100 and _SHARE.search(job.metric):
        return 100.0
    if job.sign < 0 and high <= -1 and _PERPLEXITY.search(job.metric):
        return -1.0
    return 0.0 if job.sign < 0 and high <= 0 else np.inf


def out_of_reach(job: Job, target: float | None, samples: Sequence[Sample]) -> bool:
    """Return whether no evaluation can meet a target, by what evaluations so far say of the metric's unit."""
    shown = np.array([point.accuracy for sample in samples for point in sample.curve])
    return target is not None and len(shown) > 0 and job.sign * target > natural_ceiling(job, job.sign * shown)


def asked_in_per_cent(job: Job, target: float | None, samples: Sequence[Sample]) -> bool:
    """Return whether a target is in per cent of a share that evaluations so far tell in parts of one."""
    shown = [point.accuracy for sample in samples for point in sample.curve]
    if target is None or not shown or job.sign < 0 or not _SHARE.search(job.metric):
        return False
    return min(shown) < target / 100 <= 1 < target and _MUCH <= max(shown) <= 1


@dataclass(frozen=True, slots=True)
class _Law:
    """The six coefficients."""

    a: float
    c: float
    u0: float
    p: float
    bc: float
    bd: float

    def __call__(self, batch: Number, epochs: Floats) -> Floats:
        """Return the accuracy of a batch after some epochs, or of each batch after its own."""
        return np.asarray(self.a - self.c * (epochs / _pace(batch, self.bc, self.bd) + self.u0) ** -self.p)

    def slope(self, batch: int, epochs: float) -> float:
        """Return by how much accuracy rises for each unit of ln epochs."""
        done = epochs / _pace(batch, self.bc, self.bd)
        return float(self.c * self.p * done * (done + self.u0) ** (-self.p - 1))


def _pace(batch: Number, bc: Number, bd: Number) -> Number:
    return 1 + batch / bc + bd / batch


def usual_pace(batch: Floats, measured: int, prior: BatchPrior) -> Floats:
    """Return how many times the epochs of the measured batch others need while it is the only one."""
    bc, bd = prior.critical_batch(measured), prior.small * measured
    return np.asarray(_pace(batch, bc, bd) / _pace(measured, bc, bd))


def misfit(job: Job, samples: Sequence[Sample]) -> float:
    """Return how far evaluations lie from the law that fits them best, in the mean."""
    found = curves(job, samples)
    law = _fit(found, _bounds(job, found)[1], batch_prior(job))
    return float(np.mean([np.abs(law(curve.global_batch, curve.epochs) - curve.accuracy).mean() for curve in found]))


def _fit(found: Sequence[Measured], ceiling: float, batches: BatchPrior) -> _Law:
    found = [found[place] for place in spread_out(len(found), _MOST_POINTS // _FEWEST)]
    each = int(np.clip(_MOST_POINTS // len(found), _FEWEST, _POINTS))
    thin = [_thinned(curve, each) for curve in found]
    batch = np.repeat([float(curve.global_batch) for curve in found], [len(points[0]) for points in thin])
    epochs = np.concatenate([epochs for epochs, _ in thin])
    target = np.concatenate([values for _, values in thin])
    axes, ratios, prior = _first_grid(batch, epochs, batches)
    weights = np.ones_like(target)
    for _ in range(_ROUNDS):
        logs = (np.log(axis) for axis in np.ix_(*axes))
        penalty = sum(width * (log - centre) ** 2 for log, (centre, width) in zip(logs, prior, strict=True))
        a, c, errors = _solve(_progress(batch, epochs, axes), target, weights, ceiling)
        best = int(np.argmin((errors + 1e-9) * (1 + np.ravel(penalty))))
        places = np.unravel_index(best, [len(axis) for axis in axes])
        u0, p, bc, bd = (float(axis[place]) for axis, place in zip(axes, places, strict=True))
        law = _Law(float(a[best]), float(c[best]), u0, p, bc, bd)
        off = np.abs(law(batch, epochs) - target)
        weights = 1 / np.maximum(1.0, off / (1.5 * 1.4826 * np.median(off) + 1e-9))
        axes = [_around(value, ratio) for value, ratio in zip((u0, p, bc, bd), ratios, strict=True)]
        ratios = [np.sqrt(ratio) for ratio in ratios]
    return law


@lru_cache(CURVES)
def _thinned(curve: Measured, most: int) -> tuple[Floats, Floats]:
    """Return a few points of a curve, close at its start and averages over ever more later."""
    count = len(curve.epochs)
    if count <= _SHORT:
        return curve.epochs, curve.accuracy
    starts = np.unique(np.geomspace(1, count + 1, min(most, count) + 1).astype(np.int64)[:-1] - 1)
    sizes = np.diff(np.append(starts, count))
    return np.add.reduceat(curve.epochs, starts) / sizes, np.add.reduceat(curve.accuracy, starts) / sizes


def _first_grid(
    batch: Floats, epochs: Floats, batches: BatchPrior
) -> tuple[list[Floats], list[float], list[tuple[float, float]]]:
    """Return the values of u0, p, Bc, Bd to try, their ratios, and the centre and weight of a prior on each."""
    unit = float(np.exp(np.log(epochs).mean()))
    usual_bc, usual_bd = batches.critical_batch(float(batch.max())), batches.small * float(batch.min())
    axes = [unit * np.geomspace(0.02, 5, 6), np.geomspace(0.25, 3.0, 6)]
    if np.ptp(batch) > 0:
        axes += [batch.max() * np.array([1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 16, 64.0])]
        axes += [batch.min() * np.array([1 / 64, 1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 8, 16.0])]
    else:
        axes += [np.array([usual_bc]), np.array([usual_bd])]
    ratios = [3.0, 1.65, 2.0, 2.0]
    prior = [
        (float(np.log(unit * 0.3)), 0.03),
        (float(np.log(0.7)), 0.1),
        (float(np.log(usual_bc)), batches.weight),
        (float(np.log(usual_bd)), batches.weight),
    ]
    return axes, ratios, prior


def _around(value: float, ratio: float) -> Floats:
    return value * np.array([1 / ratio, 1.0, ratio])


def _progress(batch: Floats, epochs: Floats, axes: list[Floats]) -> Floats:
    """Return (u + u0)^-p for every point of the grid (rows, the last axis fastest) and of the curves (columns)."""
    u0, p, bc, bd = (axis[..., None] for axis in np.ix_(*axes))
    powers = -p * np.log(epochs / _pace(batch, bc, bd) + u0)  # the logarithm is shared by all p
    return np.exp(powers, out=powers).reshape(-1, len(epochs))


def _solve(x: Floats, target: Floats, weights: Floats, ceiling: float) -> tuple[Floats, Floats, Floats]:
    """Return A, C and the weighted squared error for every row of x."""
    share = weights / weights.sum()
    # einsum, because a threaded matrix product waits for cores that training may be using.
    mean_x, mean_y = np.einsum("gp,p->g", x, share), float(target @ share)
    xx = np.einsum("gp,gp,p->g", x, x, share)
    xy = np.einsum("gp,p->g", x, share * target)
    spread = np.maximum(xx - mean_x**2, 1e-300)
    c = np.maximum(-(xy - mean_x * mean_y) / spread, 0.0)
    a = mean_y + c * mean_x
    over = a > ceiling
    c = np.where(over, np.maximum((ceiling * mean_x - xy) / xx, 0.0), c)
    a = np.where(over, ceiling, a)
    yy = float((target**2) @ share)
    errors = yy - 2 * (a * mean_y - c * xy) + a**2 - 2 * a * c * mean_x + c**2 * xx
    return a, c, np.maximum(errors, 0.0)


@dataclass(frozen=True, slots=True)
class _Left:
    """What the law leaves over at one batch, smoothed over epochs; `cap` after a collapse."""

    batch: int
    epochs: Floats
    values: Floats
    shift: float  # of ln epochs, by which runs of this batch are ahead of the law
    cap: float

    @classmethod
    def of(cls, law: _Law, batch: int, measured: Sequence[Measured], cap: float, span: float) -> _Left:
        over = [_smooth(curve.accuracy - law(batch, curve.epochs)) for curve in measured]
        places, values = measured[0].epochs, over[0]
        if len(measured) > 1:
            places = np.unique(np.concatenate([curve.epochs for curve in measured]))
            # A short curve says nothing about later epochs, where a longer one has been.
            kept = [np.interp(places, one.epochs, rest, right=np.nan) for one, rest in zip(measured, over, strict=True)]
            values = np.nanmean(kept, axis=0)
        slope = law.slope(batch, float(places[-1]))
        shift = float(values[-1]) * slope / (slope**2 + (_LEVEL * span) ** 2 + 1e-300)
        return cls(batch, places, values, float(np.clip(shift, -_MOST_SHIFT, _MOST_SHIFT)), cap)

    def __call__(self, law: _Law, epochs: Floats) -> Floats:
        """Return what is to be added to the law at this batch."""
        later = epochs > self.epochs[-1]
        fading = self._ahead(law, epochs) - self._ahead(law, self.epochs[-1:])
        added: Floats = np.interp(epochs, self.epochs, self.values) + np.where(later, fading, 0.0)
        if np.isinf(self.cap):
            return added
        whole: Floats = law(self.batch, epochs) + added
        return added - np.where(later, np.maximum(whole - self.cap, 0.0), 0.0)

    def _ahead(self, law: _Law, epochs: Floats) -> Floats:
        """Return how much more than the law a run shows that is ahead of it by `shift`."""
        return law(self.batch, epochs * np.exp(self.shift)) - law(self.batch, epochs)


def _end(measured: Sequence[Measured], share: float, *, turns: bool) -> float:
    """Return what a batch stays at whose longest curve has collapsed or turned; infinite where it goes on."""
    last = longest(measured)
    worse = fallen(last, share) or (turns and turn(last) is not None)
    return float(last.accuracy[-1]) if worse else np.inf


def _smooth(values: Floats) -> Floats:
    """Return a running mean of three, the middle one counting twice; an end stands for what is missing beside it."""
    if len(values) < 3:
        return values
    padded = np.concatenate([values[:1], values, values[-1:]])
    result: Floats = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
    return result


@dataclass(frozen=True, slots=True)
class _Model:
    law: _Law
    floor: float
    ceiling: float
    places: Floats  # ln of the measured batches
    left: tuple[_Left, ...]

    def predict(self, configs: Configs, epochs: Floats) -> Floats:
        batch = np.maximum(configs.global_batch, 1).astype(np.float64)
        below, above, share = neighbours(np.log(batch), self.places)
        near, row = np.unique([below, above], return_inverse=True)
        left = np.stack([self.left[place](self.law, epochs) for place in near])[row.reshape(2, -1)]
        whole = self.law(batch[:, None], epochs) + (1 - share) * left[0] + share * left[1]
        return np.asarray(np.clip(whole, self.floor, self.ceiling))


@dataclass(frozen=True, slots=True)
class Held:
    """The only value measured, from the epoch on that it was measured after; other batches get there at their pace."""

    value: float
    epoch: float
    global_batch: int
    prior: BatchPrior
    remark: str = "one evaluation is assumed to stay where it is, and larger batches to take longer"

    @classmethod
    def of(cls, job: Job, samples: Sequence[Sample]) -> Held:
        curve = curves(job, samples)[0]
        return cls(float(curve.accuracy[0]), float(curve.epochs[0]), curve.global_batch, batch_prior(job))

    def predict(self, configs: Configs, epochs: Floats) -> Floats:
        batches = np.maximum(configs.global_batch, 1).astype(np.float64)
        needed = self.epoch * usual_pace(batches, self.global_batch, self.prior)
        halvings = np.maximum(np.log2(needed[:, None] / epochs[None, :]), 0.0)
        return np.asarray(self.value - _HALF_AS_LONG * abs(self.value) * halvings)
