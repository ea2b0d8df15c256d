"""Planning for one job from what is known of it: forecasts of every config, judged by a goal.

    Evidence ─learn▶ Planner ─plan(search)▶ Plan      or `Infeasible`, with the nearest
                             ─forecast(config)▶ Forecast

A planner is one state of knowledge. Other goals, prices and spaces are asked of it without
fitting anything anew. The command line, the dashboard, the service, the report and the exports plan here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from cotune import registry
from cotune.checkpoints import Resumable
from cotune.forecast import Forecaster, Outlook
from cotune.plan import Search
from cotune.plan.assess import Assessment, assess
from cotune.plan.choose import decide
from cotune.predict.evidence import PREDICTORS, Evidence, Predictors
from cotune.predict.learning.schedules import continuable
from cotune.space import Configs, Space
from cotune.types import RECORDED, Cluster, Config, Forecast, Goal, Job, Plan


class Question(Protocol):
    """What is planned for: a job, a goal, what may be chosen and what there is; `Settings` is one."""

    @property
    def job(self) -> Job: ...
    @property
    def goal(self) -> Goal: ...
    @property
    def space(self) -> Space: ...
    @property
    def cluster(self) -> Cluster: ...


@dataclass(frozen=True)
class Planner:
    """A job with the outlook of every config that may be chosen, ready for any goal."""

    job: Job
    goal: Goal
    space: Space
    cluster: Cluster
    forecaster: Forecaster
    outlook: Outlook
    checkpoints: Resumable
    seed: int = 0

    @classmethod
    def learn(
        cls,
        question: Question,
        evidence: Evidence,
        predictors: Predictors = PREDICTORS,
        *,
        with_accuracy: bool | None = None,
    ) -> Planner:
        """Return the planner of what was measured; accuracy is forecast where the goal needs it, unless it is said."""
        job, goal, space, cluster = question.job, question.goal, question.space, question.cluster
        wanted = space.needs_accuracy(goal) if with_accuracy is None else with_accuracy
        forecaster = evidence.forecaster(job, cluster, predictors, with_accuracy=wanted)
        outlook = forecaster(space.configs(), goal.max_epochs)
        left = Resumable.among(continuable(job, goal, evidence.samples))
        return cls(job, goal, space, cluster, forecaster, outlook, left, predictors.seed)

    def asking(self, goal: Goal, cluster: Cluster | None = None) -> Planner:
        """Return the planner for another goal, and at other prices."""
        outlook = self.outlook
        if goal.max_epochs != self.goal.max_epochs:
            outlook = self.forecaster(self.space.configs(), goal.max_epochs)
        return replace(self, goal=goal, cluster=cluster or self.cluster, outlook=outlook)

    def within(self, space: Space) -> Planner:
        """Return the planner that chooses from another space."""
        return replace(self, space=space, outlook=self.forecaster(space.configs(), self.goal.max_epochs))

    def sooner(self, seconds: float) -> Planner:
        """Return the planner of runs that begin so many seconds sooner, as they do on an engine that is up."""
        cold = self.forecaster

        def warm(configs: Configs, max_epochs: int) -> Outlook:
            return cold(configs, max_epochs).sooner(seconds)

        return replace(self, forecaster=warm, outlook=self.outlook.sooner(seconds))

    def from_scratch(self) -> Planner:
        """Return the planner that goes on from no probe's checkpoint."""
        return replace(self, checkpoints=Resumable({}))

    def assess(self) -> Assessment:
        """Return every config judged by the goal, with what probes have trained of it left out of what is left."""
        return self._assess(self.outlook)

    def _assess(self, outlook: Outlook) -> Assessment:
        trained = self.checkpoints.epochs(self.job, self.goal, outlook.configs)
        return assess(outlook, self.goal, self.cluster, self.job.sign, trained)

    def plan(self, search: str | Search = "grid", assessed: Assessment | None = None) -> Plan:
        """Return the best plan, or raise `Infeasible` with the nearest ones."""
        judged, chosen = assessed or self.assess(), registry.create("search", search)
        # A recording leaves no checkpoint that a run could really go on from.
        go_on = any(sample.engine != RECORDED for sample in self.checkpoints.best.values())
        plan = decide(self.job, self.space, judged, search=chosen, go_on=go_on, seed=self.seed)
        before = self.checkpoints.of(plan.config, self.goal)
        return replace(plan, continues=before.id if before else None)

    def forecast(self, config: Config) -> Forecast:
        """Return what is expected of one config, inside the space or not."""
        rows = np.flatnonzero(self.outlook.configs.same(config))
        if len(rows):
            return self.assess().forecast(int(rows[0]))
        return self._assess(self._outlook_of(config)).forecast(0)

    def follow(self, plan: Plan) -> Plan:
        """Return a plan with its config forecast anew for the goal that is asked now, without rivals."""
        outlook = self._outlook_of(plan.config)
        judged = self._assess(outlook)
        return replace(
            plan, forecast=judged.forecast(0), goal=self.goal, rivals=(), notes=outlook.notes, rest=judged.rest(0)
        )

    def _outlook_of(self, config: Config) -> Outlook:
        return self.forecaster(Configs.of([config]), self.goal.max_epochs)
