"""Accuracy of many recipes after each epoch: median, spread to either side, and where it comes from.

    pace^2  = luck^2 + (batch x doublings)^2                                a deviation of ln epochs
    below^2 = max(curve(e) - curve(e / exp(pace)), noise)^2 + level^2 + later^2
    above^2 = max(curve(e exp(pace)) - curve(e), noise)^2   + level^2 + later^2

Two runs of one recipe, or of two batches, learn much the same at another pace: what is not known is how many epochs an
accuracy takes, rather than how much accuracy an epoch gives.

luck     two runs of one recipe reach a target after epochs that differ by some per cent (`luck.py`)
batch    grows with the doublings to the nearest measured batch, as on other jobs; and with those of the workers,
         where accuracy depends on them (`recipes.py`)
         At a fixed learning rate no batch larger than all that were trained needs fewer epochs than a fast run of these
level    and a little of the range of accuracies for each doubling, as batches end at different values
noise    how far evaluations late in a curve are off their neighbours, of each batch for itself, and repeats late on
later    grows with the doublings of epochs after the end of the measured curves, by LATER of the range of accuracies,
         and by at least range / k where the longest curve has k evaluations. The best so far never falls: two
         deviations below the median are at most what the curve is expected to rise after that end

A run stops at the first evaluation that meets its target, so what counts is the best so far: of n evaluations on a
plateau the best lies  noise x z(2^(-1/n))  above it. Where a recipe was measured, its own evaluations count, less the
part of them that is chance: the best of several probes is also the best by chance, so what it shows beyond the law is
shrunk to it. Single evaluations have a forecast of their own.

A training from scratch varies like any run. A run that resumes from a probe has that probe's past instead
(`with_past`): up to where its curve ends nothing is uncertain. Where training continued without evaluations, none is
expected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtri

from cotune.checkpoints import Resumable
from cotune.forecast import Learning, Sources
from cotune.predict import AccuracyModel
from cotune.predict.annealing import Annealing
from cotune.predict.best_so_far import EARLY, apart, on_plateau
from cotune.predict.ends import collapsed, longest, shown_bound, turn
from cotune.predict.evaluation_noise import evaluation_noise
from cotune.predict.luck import NEVER, Luck, luck
from cotune.predict.predictors.curve import natural_ceiling
from cotune.predict.recipes import Recipes
from cotune.predict.samples import KEPT, LearningCurve, by_global_batch, curves, neighbours
from cotune.space import Configs
from cotune.types import Z90, Config, Floats, Ints, Job, Mask, Recipe, Sample

# Chosen by benchmarks/calibration.py --curves, with each data set left out in turn (docs/prediction.md):
_PACE = 0.15  # of ln epochs, for each doubling between a batch and the nearest that was measured
_PACE_ALONE = 0.25  # the same while one batch was measured
_LEVEL = 0.005  # of the range of accuracies, for each such doubling
_LATER = 0.05  # of the range, for each doubling of epochs after the end of the curves
_UNLUCKY = 2.0  # deviations by which a run may be out of luck and still not fall
_RUN = 0.015  # of the range, of one evaluation between runs
_CERTAIN = 1e-9  # of that range: what is left to doubt of a curve that is gone on with
_NEVER = 10.0  # below all that was shown, in the range of what was
_COLLAPSED = 0.25  # of that range, around a curve that collapsed
_MOSTLY = 0.5  # of what neighbours tell of a recipe, from which it is thought to have turned
_MOST_STEPS = 256  # between evaluations, that are told apart: each costs some milliseconds
_ALIKE = 1.03  # by which two differ that are not, where there are more
_BY_BATCH = Recipes()  # accuracy depends on the global batch alone
_OUTSIDE = 1.5  # how much faster than between batches the spread grows outside them


@dataclass(frozen=True, slots=True)
class _Near:
    """Where recipes lie among the batches that were measured, and what is told there."""

    below: Ints  # the next smaller of them, counted from 0
    above: Ints  # and the next larger
    share: Floats  # how far they are on the way between the two, in ln B
    away: Floats  # doublings to the nearest
    outside: Mask
    end: Floats  # log2 of the epochs after which the curves end
    broken: Floats  # share of the curves that collapsed
    turned: Floats  # share of the longest curves that have turned: where one has, nothing better comes later

    @property
    def place(self) -> Floats:
        """Return where they lie, counted in measured batches from 0."""
        return self.below + self.share[:, 0]

    @property
    def far(self) -> Floats:
        """Return the doublings that count: outside they count for more."""
        return self.away * np.where(self.outside, _OUTSIDE, 1.0)


@dataclass(frozen=True, eq=False)
class AccuracyOutlook:
    """A fitted law of accuracy with what is known of its errors; the same only as itself."""

    model: AccuracyModel
    found: tuple[LearningCurve, ...]
    range: float
    ceiling: float  # what no law can pass
    noise: Floats  # of one evaluation at each batch measured, the smallest first
    pace: float  # deviation of ln epochs for each doubling away from a measured batch
    level: float  # and of accuracy
    few: float  # the least spread for each doubling after the end of the curves, by how few evaluations there are
    assumed: bool
    luck: Luck
    recipes: Recipes = _BY_BATCH
    going: Mapping[Recipe, LearningCurve] = field(default_factory=dict)  # what a run of a recipe goes on from
    steps: Callable[[Ints, float], Floats] | None = None  # epochs between evaluations at some global batches; else one
    annealing: Annealing | None = None  # where curves are of the ends of annealed runs
    grain: float = 1.0  # epochs of which a run is told a multiple
    fixed_rate: bool = False  # the learning rate does not grow with the batch
    bound: float = np.inf  # what no draw can pass: a bound is met in every run that shows it, so laws go on beyond it

    def with_past(self, job: Job, samples: Sequence[Sample]) -> AccuracyOutlook | None:
        """Return the same outlook for runs that go on from what these samples left, if anything was.

        Where a recording judges a run by several seeds, the one that a probe drew is not its past.
        """
        left = [] if job.seeds > 1 else list(Resumable.among(samples).best.values())
        if not left:
            return None
        found = [curves(job, self.recipes.samples([sample]))[0] for sample in left]
        return _going_on(self, tuple(zip([job.recipe(sample.config) for sample in left], found, strict=True)))

    def predict(self, configs: Configs, max_epochs: int) -> Learning:
        """Return what configs of one recipe each learn by every evaluation up to `max_epochs`."""
        if self.steps is None:
            return self._predicted(configs, max_epochs, 1.0)
        steps = self.steps(configs.global_batch, max_epochs)
        distinct = np.unique(steps)
        if len(distinct) > _MOST_STEPS:
            steps = _ALIKE ** np.round(np.log(steps) / np.log(_ALIKE))
            distinct = np.unique(steps)
        if len(distinct) == 1:
            return self._predicted(configs, max_epochs, float(distinct[0]))
        alike = [np.flatnonzero(steps == step) for step in distinct]
        parts = [
            self._predicted(configs.take(rows), max_epochs, float(step))
            for rows, step in zip(alike, distinct, strict=True)
        ]
        return _together(parts, np.argsort(np.concatenate(alike)))

    def _predicted(self, configs: Configs, max_epochs: int, step: float) -> Learning:
        """Return the same of configs that are evaluated after as many epochs."""
        epochs = step * np.arange(1.0, max(math.floor(max_epochs / step * (1 + _CERTAIN)), 1) + 1)
        alike = self.recipes.configs(configs)
        near = self._near(alike, self.recipes.strange(configs))
        median = self.model.predict(alike, epochs)
        early = self.model.predict(alike, np.array([EARLY * step]))
        luck = self._between_runs(near)
        below, above = apart(median, early, np.hypot(luck, self.pace * near.far))
        if self.fixed_rate:
            above = np.minimum(above, self._quickest(alike, median, apart(median, early, luck)[1], epochs))
        ends = self.annealing.noise if self.annealing else 0.0
        noise = np.interp(near.place, np.arange(len(self.noise)), self.noise)
        always = ((self.level * near.far + _COLLAPSED * self.range * near.broken) ** 2 + ends**2)[:, None]
        doublings = np.maximum(np.log2(epochs)[None, :] - near.end[:, None], 0.0)
        few = self.few if self.annealing is None else 0.0  # the ends of annealed runs have a noise of their own
        later = max(_LATER * self.range, few) * doublings
        shown = np.minimum(self._best(median, noise) + self._shared(near, epochs), self.ceiling)
        best = np.maximum.accumulate(shown, axis=1)
        ended = np.clip(np.ceil(2**near.end / step).astype(np.int64) - 1, 0, len(epochs) - 1)
        risen = np.maximum(best - np.take_along_axis(best, ended[:, None], axis=1), 0.0)
        rising = (1 - near.turned)[:, None]
        # The variance between runs was learnt where they cross targets, by evaluations whose noise it holds already.
        each = noise[:, None]
        spread = np.sqrt(np.maximum(above, each) ** 2 + always + (rising * later) ** 2)
        fall = np.sqrt(np.maximum(below, each) ** 2 + always + np.minimum(later, risen / _UNLUCKY) ** 2)
        self._put_certain(configs, epochs, best, spread, fall)
        if self.annealing is None:
            self._put_never(best, epochs)
        other = (above**2 + below**2) / 2 + each**2 + always + later**2 + (_RUN * self.range) ** 2
        return Learning(
            recipe=np.arange(configs.length),
            best=best,
            spread=spread,
            fall=fall,
            evaluation=median,
            evaluation_spread=np.sqrt(other),
            source=self._source(near),
            told=2**near.end,
            ceiling=min(self.ceiling, self.bound),
            step=np.full(configs.length, step),
            way=self.annealing.way if self.annealing else None,
            grain=self.grain,
            turn=self._turns(near, best, epochs) if self.annealing is None else None,
        )

    def _turns(self, near: _Near, best: Floats, epochs: Floats) -> Floats | None:
        """Return when each recipe has learnt all that it will, unlucky runs included; None where none has turned."""
        turned = near.turned > _MOSTLY
        if not turned.any():
            return None
        top = epochs[(best >= best[:, -1:] - _CERTAIN * self.range).argmax(axis=1)]
        late = top * np.exp(Z90 * np.hypot(self._between_runs(near), self.pace * near.far))
        return np.where(turned, epochs[0] * np.ceil(late / epochs[0]), np.inf)

    def _quickest(self, alike: Configs, median: Floats, lucky: Floats, epochs: Floats) -> Floats:
        """Return by how much recipes may be above their median at a fixed learning rate.

        Whatever else is not known of a batch larger than all that were trained: it takes no fewer epochs than the
        largest of them does in a lucky run.
        """
        largest = max(self.found, key=lambda curve: curve.global_batch)
        config = Config.data_parallel(largest.batch_size, max(1, largest.global_batch // largest.batch_size))
        law, early = (self.model.predict(Configs.of([config]), places) for places in (epochs, EARLY * epochs[:1]))
        above = apart(law, early, np.array([self.luck.deviation(1.0)]))[1]
        larger = (alike.global_batch > largest.global_batch)[:, None]
        return np.where(larger, np.maximum(lucky, above + (law - median) / Z90), np.inf)

    def _between_runs(self, near: _Near) -> Floats:
        """Return the deviation of ln epochs of one more run of each recipe: the more runs were seen, the less."""
        runs = np.array([len(self._same(batch)) for batch in self._by_batch], dtype=np.float64)
        each = np.where(near.away == 0, runs[near.below], 1.0)
        return np.array([self.luck.deviation(count) for count in each.tolist()])

    def _near(self, alike: Configs, strange: Floats) -> _Near:
        """Return where recipes lie among the measured batches; `strange` doublings of something else come on top."""
        wished = np.log2(np.maximum(alike.global_batch, 1).astype(np.float64))
        of = self._by_batch.values()
        places = np.log2(list(self._by_batch))
        ends = np.log2([max(float(curve.epochs[-1]) for curve in same) for same in of])
        broken = [float(np.mean([collapsed(curve, _COLLAPSED) for curve in same])) for same in of]
        steady = self.annealing is None
        ended = [longest(same) for same in of]
        turned = [float(steady and turn(one) is not None and not collapsed(one, _COLLAPSED)) for one in ended]
        below, above, share = neighbours(wished, places)
        return _Near(
            below=below,
            above=above,
            share=share,
            away=np.abs(wished[:, None] - places[None, :]).min(axis=1) + strange,
            outside=(wished < places[0]) | (wished > places[-1]),
            end=np.interp(wished, places, ends),
            broken=np.interp(wished, places, broken),
            turned=np.interp(wished, places, turned),
        )

    def _source(self, near: _Near) -> Sources:
        if self.assumed:
            return np.full(len(near.away), "assumed", dtype=object)
        between = np.where(near.outside, "extrapolated", "interpolated")
        return np.where(near.away == 0, "measured", between).astype(object)

    def _best(self, median: Floats, noise: Floats) -> Floats:
        """Return the best of all evaluations so far by the law, each row with its own noise."""
        tries = on_plateau(median, noise)
        lift = ndtri(0.5 ** (1 / np.arange(1.0, median.shape[1] + 1)))  # of the best of 1, 2, ... tries
        return np.asarray(np.minimum(median + noise[:, None] * lift[tries - 1], self.ceiling))

    def _shared(self, near: _Near, epochs: Floats) -> Floats:
        """Return how much better than by the law the best is: as measured, and straight in ln B between batches."""
        found = [self._better(batch, epochs, noise) for batch, noise in zip(self._by_batch, self.noise, strict=True)]
        own, others = (np.stack(part) for part in zip(*found, strict=True))
        between = (1 - near.share) * others[near.below] + near.share * others[near.above]
        return np.where((near.away == 0)[:, None], own[near.below], between)

    def _better(self, batch: int, epochs: Floats, noise: float) -> tuple[Floats, Floats]:
        """Return how much better than by the law the best of a measured batch is, and what that tells of others.

        What it was at the end stays. An evaluation below the law is bad luck, which others do not share.
        """
        same = self._same(batch)
        furthest = max(same, key=lambda curve: float(curve.epochs[-1]))
        config = Config.data_parallel(furthest.batch_size, max(1, batch // furthest.batch_size))
        middle = self.model.predict(Configs.of([config]), epochs)
        law = self._best(middle, np.array([noise]))[0]
        # A curve says nothing of epochs that it did not reach.
        each = np.array([np.interp(epochs, c.epochs, c.accuracy, left=np.nan, right=np.nan) for c in same])
        told = np.flatnonzero(np.isfinite(each).any(axis=0))
        if len(told) == 0:
            return np.zeros(len(epochs)), np.zeros(len(epochs))
        shown = np.maximum.accumulate(np.nanmean(each[:, told], axis=0))
        share = 1.0 if self.going else self.luck.kept(len(same))
        own = np.interp(epochs, epochs[told], share * (shown - law[told]), left=0.0)
        others = np.maximum(own, middle[0] - law)
        if furthest.silent:  # whatever is learnt later, no evaluation will show
            later = epochs > epochs[told[-1]]
            own[later] = others[later] = shown[-1] - law[later]
        return own, others

    @cached_property
    def _by_batch(self) -> dict[int, list[LearningCurve]]:
        return by_global_batch(self.found)

    def _same(self, batch: int) -> list[LearningCurve]:
        """Return the curves that tell of a batch: the one that a run goes on from, or else all."""
        return [curve for curve in self.going.values() if curve.global_batch == batch] or self._by_batch[batch]

    def _put_certain(self, configs: Configs, epochs: Floats, best: Floats, *spreads: Floats) -> None:
        """Leave nothing to chance of the past of a run that goes on, a target that was just met included."""
        for recipe, curve in self.going.items():
            alike = configs.global_batch == recipe.global_batch
            rows = np.flatnonzero(alike if recipe.workers is None else alike & (configs.workers == recipe.workers))
            past = np.flatnonzero((epochs >= curve.epochs[0]) & ((epochs <= curve.epochs[-1]) | curve.silent))
            best[np.ix_(rows, past)] += 2 * NEVER * _CERTAIN * self.range
            for spread in spreads:
                spread[np.ix_(rows, past)] = _CERTAIN * self.range

    def _put_never(self, best: Floats, epochs: Floats) -> None:
        """Let a job that is first evaluated after some epochs meet no target before."""
        first = min(float(curve.epochs[0]) for curve in self.found)
        if first <= epochs[-1]:
            best[:, epochs < first] = min(float(np.min(curve.accuracy)) for curve in self.found) - _NEVER * self.range


def _together(parts: Sequence[Learning], order: Ints) -> Learning:
    """Return what recipes of several steps between evaluations learn as one, in an order."""
    wide = max(part.best.shape[1] for part in parts)

    def table(tables: Sequence[Floats]) -> Floats:
        return np.vstack([np.pad(one, ((0, 0), (0, wide - one.shape[1])), mode="edge") for one in tables])[order]

    never = [np.full(len(part.best), np.inf) if part.turn is None else part.turn for part in parts]
    return replace(
        parts[0],
        recipe=np.arange(len(order)),
        best=table([part.best for part in parts]),
        spread=table([part.spread for part in parts]),
        fall=table([part.fall for part in parts]),
        evaluation=table([part.evaluation for part in parts]),
        evaluation_spread=table([part.evaluation_spread for part in parts]),
        source=np.concatenate([part.source for part in parts])[order],
        told=np.concatenate([part.told for part in parts])[order],
        step=np.concatenate([part.steps for part in parts])[order],
        turn=None if all(part.turn is None for part in parts) else np.concatenate(never)[order],
    )


@lru_cache(KEPT)
def _going_on(outlook: AccuracyOutlook, left: tuple[tuple[Recipe, LearningCurve], ...]) -> AccuracyOutlook:
    return replace(outlook, going=dict(left))


def accuracy_outlook(
    model: AccuracyModel,
    job: Job,
    samples: Sequence[Sample],
    recipes: Recipes = _BY_BATCH,
    *,
    assumed: bool,
) -> AccuracyOutlook:
    """Return the outlook of a law, learnt from samples of such recipes."""
    found = curves(job, samples)
    values = np.concatenate([curve.accuracy for curve in found])
    span = float(np.ptp(values)) or 0.1 * float(np.abs(values).max()) or 1.0
    noise = evaluation_noise(found, span)
    batches = len({curve.global_batch for curve in found})
    ceiling = natural_ceiling(job, values)
    return AccuracyOutlook(
        model=model,
        found=tuple(found),
        range=span,
        ceiling=ceiling,
        noise=noise,
        pace=_PACE if batches > 1 else _PACE_ALONE,
        level=_LEVEL * span,
        few=span / max(len(curve.epochs) for curve in found),
        assumed=assumed,
        luck=luck(found),
        recipes=recipes,
        fixed_rate=job.scaling == "fixed",
        bound=shown_bound(found),
    )
