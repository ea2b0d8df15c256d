"""Optimus's loss curve, where it ends, and whether it may be believed.

    loss(k) = 1 / (b0 k + b1) + b2                                        all coefficients >= 0

k counts epochs here, and may as well count steps: the coefficients take up the factor. Single points far
from their neighbours are taken out first (`without_outliers`). The points are cut into three equal
parts whose squared errors weigh 1, 4 and 16: later ones tell more of the end. For a given b2 the
curve is a line in 1 / (loss - b2), weighted by the fourth power of what is inverted, so that it is
the error of the loss that counts; b2 is found on a grid that is refined around its best point.

A curve has converged at the first epoch from which it falls by less than 0.05 of its first
loss over ten epochs; past a hundred epochs the law gives up. Many jobs have no smooth loss, or
never reach what is asked of them (Tiresias): the verdict then says so instead of an epoch.

Reference: Peng et al., Optimus: an efficient dynamic resource scheduler for deep learning clusters, EuroSys 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotune.predict.metric_bounds import natural_ceiling
from cotune.predict.samples import LearningCurve, curve_of
from cotune.types import Floats, Job, Mask, Sample

LEAST_POINTS = 3
GIVES_UP = 100
_FALL, _OVER = 0.05, 10.0  # converged: less than this share of the first loss over so many epochs
_SMOOTH = 0.6  # share of the variance of the losses that a curve must explain to be believed
_WEIGHTS = (1.0, 4.0, 16.0)
_GRID, _ROUNDS = 24, 5
_LEAST_LOSS = 1e-9
_BESIDE = 2  # neighbours on either side that a point is held to; Optimus does not give its number


@dataclass(frozen=True, slots=True)
class Verdict:
    """The epoch at which something is expected of a curve, or None and why not."""

    epoch: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class LossCurve:
    """The three coefficients, and how much of the losses they explain."""

    b0: float
    b1: float
    b2: float
    explained: float
    points: int
    last: float  # epoch of the last point
    metric: str = "the loss"  # what its losses are of, in words about it

    def loss(self, epochs: Floats) -> Floats:
        """Return the loss after some epochs."""
        return np.asarray(1 / np.maximum(self.b0 * epochs + self.b1, 1e-300) + self.b2)

    def converges(self, most: int = GIVES_UP) -> Verdict:
        """Return the epoch from which ten more gain next to nothing."""
        doubt = self._doubt()
        if doubt:
            return Verdict(None, doubt)
        epochs = np.arange(1.0, most + 1)
        first = float(self.loss(np.ones(1))[0])
        done = np.flatnonzero(self.loss(epochs) - self.loss(epochs + _OVER) < _FALL * first)
        if not len(done):
            return Verdict(None, f"{self.metric} would still be getting better after {most} epochs")
        return Verdict(float(epochs[done[0]]), f"from there ten epochs gain less than {_FALL:.0%} of the first loss")

    def reaches(self, target: float) -> Verdict:
        """Return the epoch at which the loss is expected to fall to a target."""
        doubt = self._doubt()
        if doubt:
            return Verdict(None, doubt)
        if target <= self.b2:
            return Verdict(None, f"the curve of {self.points} evaluations levels off, and never gets to the target")
        epoch = (1 / (target - self.b2) - self.b1) / self.b0
        return Verdict(max(epoch, 0.0), f"where the curve of {self.points} evaluations gets to the target")

    def _doubt(self) -> str | None:
        if self.points < LEAST_POINTS:
            return f"a forecast takes {LEAST_POINTS} evaluations, and {self.points} came so far"
        if self.b0 <= 0:
            return f"{self.metric} does not get better"
        if self.explained < _SMOOTH:
            return f"{self.metric} is not smooth: a curve explains {max(self.explained, 0.0):.0%} of its changes"
        return None


def without_outliers(losses: Floats) -> Mask:
    """Return which losses are kept: not those further from their four neighbours than these are from each other.

    A falling loss lies between the two before it and the two after it, so that no point of a smooth curve is lost;
    the first two and the last two points always stay.
    """
    kept = np.ones(len(losses), dtype=bool)
    for place in range(_BESIDE, len(losses) - _BESIDE):
        beside = np.concatenate([losses[place - _BESIDE : place], losses[place + 1 : place + 1 + _BESIDE]])
        low, high = float(beside.min()), float(beside.max())
        kept[place] = 2 * low - high <= losses[place] <= 2 * high - low
    return kept


def fit_loss(epochs: Floats, losses: Floats) -> LossCurve:
    """Return the curve through some losses that are not negative; cheap enough to do anew at every point."""
    if len(epochs) == 0 or losses.min() < 0:
        raise ValueError("a loss curve needs losses, and none below zero")
    losses = np.maximum(losses, _LEAST_LOSS)
    weights = np.repeat(_WEIGHTS, [len(part) for part in np.array_split(epochs, 3)])
    least = float(losses.min())
    low, high = 0.0, least
    best = (np.inf, 0.0, 1.0, 0.0)
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _GRID, endpoint=high < least)
        b0, b1 = _lines(epochs, losses, weights, grid)
        fitted = 1 / np.maximum(b0[:, None] * epochs + b1[:, None], 1e-300) + grid[:, None]
        errors = ((fitted - losses) ** 2 * weights).sum(axis=1)
        place = int(np.argmin(errors))
        if errors[place] < best[0]:
            best = (float(errors[place]), float(b0[place]), float(b1[place]), float(grid[place]))
        step = (high - low) / _GRID
        low, high = max(best[3] - step, 0.0), min(best[3] + step, least)
    mean = float(losses @ weights / weights.sum())
    spread = float(((losses - mean) ** 2 * weights).sum())
    explained = 1 - best[0] / spread if spread > 0 else 0.0
    return LossCurve(*best[1:], explained, len(epochs), float(epochs[-1]))


def _lines(epochs: Floats, losses: Floats, weights: Floats, grid: Floats) -> tuple[Floats, Floats]:
    """Return b0 and b1, neither negative, for every b2 of a grid."""
    above = np.maximum(losses - grid[:, None], 1e-9 * losses.max() + 1e-300)
    target = 1 / above
    heavy = weights * above**4
    b0 = b1 = np.zeros(len(grid))
    for _ in range(3):  # the second and third time by the curve's own values, which carry no noise
        total = heavy.sum(axis=1)
        by_epoch, by_value = heavy * epochs, heavy * target
        mean_k, mean_z = by_epoch.sum(axis=1) / total, by_value.sum(axis=1) / total
        away = epochs - mean_k[:, None]
        kk = (heavy * away**2).sum(axis=1)
        kz = (heavy * away * (target - mean_z[:, None])).sum(axis=1)
        b0 = np.maximum(np.divide(kz, kk, out=np.zeros_like(kz), where=kk > 0), 0.0)
        b1 = mean_z - b0 * mean_k
        through_zero = b1 < 0
        if through_zero.any():
            alone = (by_epoch * target).sum(axis=1) / (heavy * epochs**2).sum(axis=1)
            b0, b1 = np.where(through_zero, alone, b0), np.maximum(b1, 0.0)
        heavy = weights / np.maximum(b0[:, None] * epochs + b1[:, None], 1e-300) ** 4
        heavy = np.where(np.isfinite(heavy), heavy, 0.0) + 1e-300
    return b0, b1


def epochs_to(job: Job, sample: Sample, target: float) -> Verdict:
    """Return the epoch at which a run under way is expected to meet its target, from its own curve so far."""
    curve = curve_of(job, sample)
    if not len(curve.epochs):
        return Verdict(None, f"no evaluation of {job.metric} yet")
    perfect = max(perfect_score(job, [curve]), job.sign * target)
    steps = job.examples / max(sample.config.global_batch, 1) if job.examples else None
    fitted = replace(joined([curve], perfect, steps or 1.0), metric=job.metric)
    found = fitted.reaches(perfect - job.sign * target)
    if found.epoch is None or steps is None:
        return found
    return Verdict(found.epoch / steps, f"{found.reason}, after {found.epoch:,.0f} steps")


def perfect_score(job: Job, found: Sequence[LearningCurve]) -> float:
    """Return the sign x metric that no loss is left at: its natural end, or a little above the best seen."""
    values = np.concatenate([curve.accuracy for curve in found])
    end = natural_ceiling(job, values)
    if np.isfinite(end):
        return end
    return float(values.max() + 0.05 * (np.ptp(values) or abs(values.max()) or 1.0))


def joined(found: Sequence[LearningCurve], perfect: float, steps: float = 1.0) -> LossCurve:
    """Return the loss curve, over epochs or their steps, through all points of some curves but their outliers."""
    kept = [without_outliers(curve.accuracy) for curve in found]
    epochs = np.concatenate([curve.epochs[rows] for curve, rows in zip(found, kept, strict=True)])
    accuracy = np.concatenate([curve.accuracy[rows] for curve, rows in zip(found, kept, strict=True)])
    order = np.argsort(epochs, kind="stable")
    return fit_loss(epochs[order] * steps, np.maximum(perfect - accuracy[order], 0.0))
