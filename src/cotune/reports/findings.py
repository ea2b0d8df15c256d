"""Everything that a report says of a job, computed once and drawn in several ways.

    sure[i] = share of draws in which config i reaches the target at all, however late

A config on the frontier is quicker than all that cost less, and reaches the target with the
confidence asked for; whether it does so in time is what the deadline decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from cotune.errors import Infeasible
from cotune.identity import new_id, timestamp
from cotune.plan.assess import Assessment
from cotune.plan.rates import cost_of
from cotune.project.ended_runs import EndedRun, ended_runs
from cotune.project.planner import Planner
from cotune.recording.replayed import ReplayedJob
from cotune.reports.scaling import Scaling, scaling
from cotune.run.attempt import StopRule, attempt
from cotune.run.engines.recorded import Recorded
from cotune.run.launch import Launch
from cotune.types import RECORDED, Cluster, Floats, Forecast, Goal, Ints, Job, Plan, Sample


@dataclass(frozen=True)
class Findings:
    """A job's goal, what every config would take, the plan or why there is none, and what was measured."""

    job: Job
    goal: Goal
    cluster: Cluster
    assessed: Assessment
    plan: Plan | None
    refusal: Infeasible | None
    samples: tuple[Sample, ...]
    runs: tuple[EndedRun, ...]

    @cached_property
    def sure(self) -> Floats:
        """Return the probability of each config to reach the target within the most epochs."""
        found = self.assessed
        share = np.isfinite(found.needed).mean(axis=1)
        if len(share) == 1 or found.outlook.learning is None:
            return np.full(len(found.seconds), share[0])
        return np.asarray(share[found.outlook.learning.recipe], dtype=np.float64)

    @cached_property
    def frontier(self) -> Ints:
        """Return the configs that no other beats in both time and cost as plans rank it, quickest first."""
        found, cost = self.assessed, self.assessed.ranked_cost
        rows = np.flatnonzero(np.isfinite(cost) & (self.sure >= self.goal.confidence))
        order = rows[np.lexsort((cost[rows], found.seconds[rows]))]
        least = np.minimum.accumulate(np.concatenate([[np.inf], cost[order]]))
        return np.asarray(order[cost[order] < least[:-1]], dtype=np.int64)

    @cached_property
    def scaling(self) -> Scaling | None:
        return scaling(self.assessed, self.sure)

    @property
    def nearest(self) -> list[Forecast]:
        """Return the plans closest to a goal that none meets."""
        return [near for near in self.refusal.nearest if isinstance(near, Forecast)] if self.refusal else []

    @property
    def unit(self) -> str:
        """Return the unit of every cost."""
        return self.assessed.unit

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the forecasts rest on."""
        return self.assessed.outlook.notes

    def cost(self, samples: Sequence[Sample]) -> float:
        """Return what some starts cost, in the unit of costs."""
        return cost_of(samples, self.cluster)


def find(planner: Planner, samples: Sequence[Sample] = (), plans: Sequence[tuple[str, Plan]] = ()) -> Findings:
    """Return what there is to say of a job; `plans` are those made so far with their times, newest first."""
    assessed = planner.assess()
    plan, refusal = None, None
    try:
        plan = planner.plan(assessed=assessed)
    except Infeasible as error:
        refusal = error
    runs = ended_runs(planner.job, planner.cluster, samples, plans)
    return Findings(planner.job, planner.goal, planner.cluster, assessed, plan, refusal, tuple(samples), runs)


def replayed_run(replayed: ReplayedJob, plan: Plan, seed: int) -> Sample:
    """Return a run of a plan from scratch, as a recording tells it."""
    job, goal = replayed.recording.job, plan.goal
    target = None if goal.prefer == "accurate" else goal.target
    id, epochs = new_id(), goal.epochs or plan.epochs
    launch = Launch(id, job, plan.config, epochs, Path(job.name), target, seed)
    start = Sample(plan.config, purpose="run", id=id, started=timestamp(), engine=RECORDED)
    engine = Recorded(replayed.folder, None, seed, recording=replayed.recording)
    *_, ended = attempt(engine, launch, StopRule(epochs=epochs), start)
    return ended
