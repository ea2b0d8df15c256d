"""A job and its samples as what the posterior asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cotune.predict.learning.future_curves import DRAWS, Posterior
from cotune.predict.learning.observations import JobFacts, Run
from cotune.predict.learning.prior import CurvePrior
from cotune.predict.learning.recipes import BY_BATCH, Recipes
from cotune.predict.metric_bounds import natural_ceiling, shown_bound
from cotune.space import Configs
from cotune.types import Floats, Job, Sample

_RUNGS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
_COARSE = 0.005  # of the largest value: a grid finer than this is rounding, not a ladder
_SAME = 1e-6  # of a rung


def posterior_of(
    job: Job,
    samples: Sequence[Sample],
    prior: CurvePrior | None = None,
    *,
    recipes: Recipes = BY_BATCH,
    draws: int = DRAWS,
) -> Posterior:
    """Return what is believed of a job after some samples, of which one has a curve at least."""
    runs = [run for sample in samples if len((run := run_of(job, sample, recipes)).epochs)]
    values = np.concatenate([run.values for run in runs])
    return Posterior(runs, facts_of(job, values, runs), prior, draws=draws)


def run_of(job: Job, sample: Sample, recipes: Recipes = BY_BATCH) -> Run:
    """Return what a sample has shown; evaluations that are no numbers show nothing."""
    told = [(point.epoch, point.accuracy) for point in sample.curve]
    if not told and sample.accuracy is not None:
        told = [(sample.epochs, sample.accuracy)]
    points = {epoch: job.sign * value for epoch, value in told if epoch > 0 and math.isfinite(value)}
    length = float(sample.length) if sample.length else None
    batch = float(recipes.batches(Configs.of([sample.config]))[0])
    return Run(batch, np.array(sorted(points)), np.array([points[epoch] for epoch in sorted(points)]), length)


def facts_of(job: Job, values: Floats, runs: Sequence[Run]) -> JobFacts:
    """Return what is known of a job whose runs have shown some values, which rise."""
    ceiling = natural_ceiling(job, values)
    return JobFacts(
        ceiling=min(ceiling, shown_bound([run.values for run in runs])),
        floor=0.0 if job.sign > 0 and ceiling < np.inf else -np.inf,
        fixed_rate=job.scaling == "fixed",
        examples=job.examples,
        falls=job.sign < 0,
        schedule=None if job.schedule == "unknown" else job.schedule or "constant",
        rung=rung_of(runs),
    )


def rung_of(runs: Sequence[Run]) -> float:
    """Return the distance between rungs, where runs show only the rungs of a ladder that they have met; else 0.

    Such values rise from each evaluation to the next, and all of them are multiples of one coarse step.
    """
    if not any(len(run.values) > 1 for run in runs) or any((np.diff(run.values) <= 0).any() for run in runs):
        return 0.0
    values = np.concatenate([run.values for run in runs])
    fits = [rung for rung in _RUNGS if np.abs(values / rung - np.round(values / rung)).max() < _SAME / rung]
    return max((rung for rung in fits if rung >= _COARSE * np.abs(values).max()), default=0.0)
