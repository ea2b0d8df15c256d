"""What the forecasts of a job rest on: its own samples, and those of jobs like it.

    samples, history ─▶ Evidence ─forecaster(predictors)▶ (Configs, max_epochs) -> Outlook

Whoever forecasts for a job asks here, so that one job has one forecast wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from cotune.errors import NotFound, OverBudget
from cotune.forecast import LEAST_EVALUATIONS, Forecaster
from cotune.predict import ACCURACY, SECONDS, AccuracyPredictor, SecondsPredictor
from cotune.predict.history import History
from cotune.predict.learn import forecaster
from cotune.predict.samples import trusted
from cotune.types import RECORDED, Cluster, Goal, Job, Sample
from cotune.units import counted


@dataclass(frozen=True, slots=True)
class Predictors:
    """What predicts time and accuracy, by name or as objects, and the seed of the draws."""

    seconds: str | SecondsPredictor = SECONDS
    accuracy: str | AccuracyPredictor = ACCURACY
    seed: int = 0


PREDICTORS = Predictors()


@dataclass(frozen=True)
class Evidence:
    """The samples of a job, and what jobs like it showed before, if anything did."""

    samples: tuple[Sample, ...]
    history: History | None = None

    @cached_property
    def all_samples(self) -> Sequence[Sample]:
        """Return the own samples that can be trusted, with those of other jobs that say something else."""
        return self.history.blended(self._own) if self.history else self._own

    @cached_property
    def _own(self) -> tuple[Sample, ...]:
        return trusted(self.samples)

    @property
    def timed(self) -> bool:
        """Return whether anything is known of the job's speed."""
        return any(sample.tells_pace for sample in self.all_samples)

    @property
    def longest_curve(self) -> int:
        """Return how many evaluations the longest learning curve has."""
        return max((len(sample.curve) for sample in self.all_samples), default=0)

    def tells_accuracy(self, job: Job, goal: Goal) -> bool:
        """Return whether the learning curves are long enough to judge a target by."""
        longest = self.longest_curve
        if longest == 0 or any(sample.engine == RECORDED for sample in self.samples):
            return longest > 0  # a recording may hold two evaluations in all; what was replayed of them has to do
        reached = any(job.reached(goal.target, sample) for sample in self.all_samples)
        return longest >= LEAST_EVALUATIONS or reached or goal.max_epochs <= longest

    def require_accuracy(self, job: Job, goal: Goal, engine: str) -> None:
        """Refuse to judge a target by learning curves that are not there, or that end before they say anything."""
        if self.tells_accuracy(job, goal):
            return
        if engine == RECORDED:
            raise OverBudget("no learning curve was replayed: allow a larger budget or more samples", remedy="replay")
        words = counted(self.longest_curve, "evaluation") if self.longest_curve else "no evaluation"
        raise NotFound(
            f"the longest learning curve of {job.name} has {words} of {job.metric}: too little to judge a target by; "
            "measure more",
            remedy="profile_longer",
            job=job,
            evaluations=self.longest_curve,
        )

    def forecaster(self, job: Job, cluster: Cluster, predictors: Predictors, *, with_accuracy: bool) -> Forecaster:
        """Return the waist: a function from configs to forecasts, of accuracy where that is wanted."""
        learnt = forecaster(
            job,
            self.all_samples,
            cluster,
            predictor=predictors.seconds,
            accuracy=predictors.accuracy if with_accuracy else None,
            seed=predictors.seed,
        )
        return self.history.doubted(learnt, self._own) if self.history else learnt
