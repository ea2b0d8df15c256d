"""What recipes show after each evaluation, draw by draw: the posterior as the columns that plans are made of.

A training from scratch varies like any run. A run that resumes from a probe has that probe's past instead
(`with_past`): up to where its curve ends nothing is uncertain. Where training went on without evaluations, none is
expected. Other predictors of accuracy give one curve for each recipe, and are taken to miss later ones as they miss
those that they were fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from cotune.checkpoints import Resumable, joined
from cotune.forecast import Learning, standard_draws
from cotune.predict import AccuracyModel
from cotune.predict.learning.future_curves import Posterior
from cotune.predict.learning.job_runs import Recipes, posterior_of, run_of
from cotune.predict.learning.prior import CurvePrior
from cotune.predict.resolution import Rhythm
from cotune.predict.samples import LearningCurve, curve_of
from cotune.space import Configs
from cotune.types import Config, Floats, Job, Mask, Recipe, Sample

DRAWS = 256
_KEPT_PATHS = 512
_OWN = -1.0  # stands for a length that is that of each end
_MOST_RECIPES = 48  # that are forecast one by one: of more, near ones share their forecast
_ALMOST = 1e-9  # of a number of evaluations, by which it may be short of a whole one
Paths = Callable[[float, Floats, "Floats | float | None", "int | None"], Floats]


@dataclass(frozen=True, eq=False)
class LearningOutlook:
    """Forecasts of learning curves at the evaluations of a job."""

    paths: Paths
    """Draws (rows) of a run of a batch after some epochs, of given lengths, which is fresh or one that was seen."""

    recipes: Recipes
    batches: Floats
    """Measured batches, as `recipes` counts them, the smallest first."""

    ends: Floats
    """Epochs after which the longest curve of each ends."""

    rhythm: Rhythm = field(default_factory=Rhythm)
    annealed: bool = False
    """The learning rate falls to the end of each run."""

    grain: float = 1.0
    """Epochs of which a run is told a multiple."""

    past: Mapping[Recipe, tuple[int, LearningCurve]] = field(default_factory=dict)
    """Runs that runs of a recipe go on from: their number and their curve."""

    def with_past(self, job: Job, samples: Sequence[Sample]) -> LearningOutlook | None:
        """Return the same for runs that go on from what these samples left, if anything was.

        Where a recording judges a run by several seeds, the one that a probe drew is not its past.
        """
        whole = joined(samples)
        left = [] if job.seeds > 1 else Resumable.among(whole).best.values()
        told = [sample for sample in whole if len(run_of(job, sample).epochs)]
        numbers = {id(sample): number for number, sample in enumerate(told)}
        found = {job.recipe(one.config): (numbers[id(one)], curve_of(job, one)) for one in left if id(one) in numbers}
        return replace(self, past=found) if found else None

    def predict(self, configs: Configs, epochs: Floats) -> Floats:
        """Return the median of what each config (rows) shows after some epochs (columns)."""
        batches = self.recipes.batches(configs).tolist()
        return np.stack([np.median(self.paths(batch, epochs, None, None), axis=0) for batch in batches])

    def learning(self, configs: Configs, max_epochs: int) -> Learning:
        """Return what configs of one recipe each show at every evaluation up to `max_epochs`."""
        batch, steps = self._shared(self.recipes.batches(configs)), self.rhythm.steps(configs.global_batch, max_epochs)
        goes_on = np.full(configs.length, -1)
        for place, recipe in enumerate(self.past):
            alike = configs.global_batch == recipe.global_batch
            goes_on[alike if recipe.workers is None else alike & (configs.workers == recipe.workers)] = place
        keys, row = np.unique(np.column_stack([batch, steps, goes_on]), axis=0, return_inverse=True)
        batch, steps, goes_on = keys[:, 0], keys[:, 1], keys[:, 2].astype(np.int64)
        counts = np.maximum(np.floor(max_epochs / steps * (1 + _ALMOST)).astype(np.int64), 1)
        pasts = list(self.past.values())

        def table(lengths: Floats | None) -> Floats:
            """Return what runs of given lengths show, one for each row; without lengths the ends of runs."""
            rows = []
            for place, count in enumerate(counts.tolist()):
                epochs = steps[place] * np.arange(1.0, count + 1)
                if goes_on[place] >= 0:
                    shown = self._going_on(float(batch[place]), epochs, *pasts[goes_on[place]])
                elif lengths is None:
                    shown = self.paths(float(batch[place]), epochs, epochs if self.annealed else None, None)
                else:
                    until = epochs[: max(math.floor(lengths[place] / steps[place] * (1 + _ALMOST)), 1)]
                    shown = self.paths(float(batch[place]), until, float(lengths[place]), None)
                rows.append(np.pad(shown, ((0, 0), (0, int(counts.max()) - shown.shape[1])), mode="edge"))
            return np.stack(rows)

        outside: Mask = (batch < self.batches[0]) | (batch > self.batches[-1])
        source = np.where(np.isin(batch, self.batches), "measured", np.where(outside, "extrapolated", "interpolated"))
        found = Learning(
            recipe=row.ravel().astype(np.int64),
            shown=table(None),
            source=source.astype(object),
            told=np.exp2(np.interp(np.log2(batch), np.log2(self.batches), np.log2(self.ends))),
            step=steps,
            grain=self.grain,
        )
        if not self.annealed:
            return found
        return replace(found, of_length=lambda lengths: replace(found, shown=table(lengths)))

    def _shared(self, batch: Floats) -> Floats:
        """Return the batches that are forecast for those asked: measured ones as they are, of very many the nearest."""
        others = np.setdiff1d(batch, self.batches)
        if len(others) <= _MOST_RECIPES:
            return batch
        few = others[np.linspace(0, len(others) - 1, _MOST_RECIPES).round().astype(np.int64)]
        nearest = few[np.abs(np.log(batch)[:, None] - np.log(few)).argmin(axis=1)]
        return np.where(np.isin(batch, self.batches), batch, nearest)

    def _going_on(self, batch: float, epochs: Floats, number: int, curve: LearningCurve) -> Floats:
        """Return what a run shows that goes on from one that was seen."""
        past = epochs <= curve.epochs[-1] * (1 + _ALMOST)
        best = np.r_[-np.inf, np.maximum.accumulate(curve.accuracy)]
        seen = best[np.searchsorted(curve.epochs, epochs * (1 + _ALMOST), side="right")]
        shown = self.paths(batch, epochs, None, number)
        return np.where(past | curve.silent, seen, shown)


def learning_outlook(job: Job, samples: Sequence[Sample], prior: CurvePrior | None = None) -> LearningOutlook:
    """Return what the posterior says of a job after some samples, of which one has a curve at least."""

    def believed(recipes: Recipes) -> Posterior:
        return posterior_of(job, samples, prior, recipes=recipes, draws=DRAWS)

    recipes = Recipes.among(job, samples, lambda recipes: believed(recipes).found.evidence)
    posterior = believed(recipes)

    @lru_cache(_KEPT_PATHS)
    def drawn(batch: float, epochs: tuple[float, ...], length: float | None, run: int | None) -> Floats:
        each = np.array(epochs)
        shown = posterior.paths(batch, each, length=each if length == _OWN else length, run=run)
        return shown.astype(np.float32)

    def paths(batch: float, epochs: Floats, length: Floats | float | None, run: int | None) -> Floats:
        return drawn(batch, tuple(epochs.tolist()), _OWN if isinstance(length, np.ndarray) else length, run)

    return LearningOutlook(paths, recipes, *_measured(job, samples, recipes))


def fitted_outlook(model: AccuracyModel, job: Job, samples: Sequence[Sample], recipes: Recipes) -> LearningOutlook:
    """Return what another predictor says of a job, off by as much as it misses what it was fitted to."""
    told = [(Configs.of([sample.config]), curve_of(job, sample)) for sample in samples]
    missed = [curve.accuracy - model.predict(config, curve.epochs)[0] for config, curve in told if len(curve.epochs)]
    deviation = math.sqrt(float((np.concatenate(missed) ** 2).mean()))
    normal = deviation * np.random.default_rng(1).permutation(standard_draws(DRAWS, 1))[:, None]

    def paths(batch: float, epochs: Floats, _: Floats | float | None, __: int | None) -> Floats:
        config = Configs.of([Config.data_parallel(round(batch), 1)])
        return np.asarray(model.predict(config, epochs) + normal, dtype=np.float32)

    return LearningOutlook(paths, recipes, *_measured(job, samples, recipes))


def _measured(job: Job, samples: Sequence[Sample], recipes: Recipes) -> tuple[Floats, Floats]:
    """Return the measured batches, the smallest first, and after how many epochs the longest curve of each ends."""
    ends: dict[float, float] = {}
    for sample in samples:
        curve = curve_of(job, sample)
        if len(curve.epochs):
            batch = float(recipes.batches(Configs.of([sample.config]))[0])
            ends[batch] = max(ends.get(batch, 0.0), float(curve.epochs[-1]))
    batches = sorted(ends)
    return np.array(batches), np.array([ends[batch] for batch in batches])
