"""A job and its samples as what the posterior asks for.

Where accuracy depends on the workers too, the batch of a run is

    batch = B w^power

B is the global batch, and w are the workers, where servers do not wait for them or batch norm is not synchronised.
A power of 0 says that the global batch alone counts after all, -1 that a worker's own batch does; in between, workers
are partly in each other's way. Of a few powers it is the one under which the curves are the most probable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cotune.predict.learning.future_curves import DRAWS, Posterior
from cotune.predict.learning.observations import JobFacts, Run
from cotune.predict.learning.prior import CurvePrior
from cotune.predict.metric_bounds import natural_ceiling, shown_bound
from cotune.space import Configs
from cotune.types import Floats, Job, Sample

_RUNGS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
_COARSE = 0.005  # of the largest value: a grid finer than this is rounding, not a ladder
_SAME = 1e-6  # of a rung
_POWERS = (0.0, -0.5, -1.0, 0.5, 1.0)
_USUAL = 0.6  # probability of a power of 0 beforehand
_FEWEST = 3  # recipes that tell a power


@dataclass(frozen=True, slots=True)
class Recipes:
    """How workers count beside the global batch."""

    power: float = 0.0

    @classmethod
    def among(cls, job: Job, samples: Sequence[Sample], evidence: Callable[[Recipes], float]) -> Recipes:
        """Return what curves say of it, given how probable (ln) they are."""
        found = {job.recipe(sample.config) for sample in samples}
        if len(found) < _FEWEST or len({recipe.workers for recipe in found}) == 1:
            return cls()
        other = math.log((1 - _USUAL) / (len(_POWERS) - 1))
        return max(map(cls, _POWERS), key=lambda one: evidence(one) + (other if one.power else math.log(_USUAL)))

    def __str__(self) -> str:
        return f", of global batch x workers^{self.power:g}" if self.power else ""

    def batches(self, configs: Configs) -> Floats:
        """Return the number that stands for each config's recipe."""
        return configs.global_batch * configs.workers.astype(float) ** self.power


BY_BATCH = Recipes()


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
