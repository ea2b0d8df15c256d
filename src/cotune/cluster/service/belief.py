"""What is believed of a job once it is measured: its seconds in every layout, the epochs it needs, and its plan.

Of each number of workers and servers only the fastest config is kept, so that a policy chooses among a handful. The
units of a service are all alike to a policy (`SLOT`); a job calls them what its file does, and is started so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from cotune.checkpoints import Resumable
from cotune.cluster.policy import Submission
from cotune.cluster.work import Steady
from cotune.documents import plan_document
from cotune.errors import Infeasible
from cotune.jobfile.settings import Settings
from cotune.predict.evidence import Predictors
from cotune.project.project import Project
from cotune.store import rows
from cotune.types import Z90, Cluster, Config, Goal, Job, Plan

SLOT = "slot"


@dataclass(frozen=True, slots=True)
class Belief:
    """A measured job: what a policy is told of it, and all that starting it takes."""

    job: Job
    goal: Goal
    cluster: Cluster  # by which its cost is counted
    engine: str
    engine_settings: Mapping[str, Any]
    silence: float | None
    stop_grace: float
    wants: Config  # what its plan chose
    seconds: Mapping[Config, float]  # of a whole training
    needed: Mapping[int, float]  # epochs, by global batch
    interval: tuple[float, float, float]  # seconds of the plan: 10th, 50th and 90th percentile
    forecast: Mapping[str, Any]  # the plan, as JSON

    @classmethod
    def learn(cls, project: Project, seed: int = 0) -> Self:
        """Learn from a project's samples, or raise `Infeasible` where no config meets its goal even alone."""
        settings, planner = project.settings, project.planner(predictors=Predictors(seed=seed))
        plan = planner.plan()
        free = planner.asking(replace(settings.goal, deadline=None, max_cost=None))
        found = replace(free, checkpoints=Resumable({})).assess()  # a job that is served begins anew
        rows_there = np.flatnonzero(found.feasible & np.isfinite(found.rate))
        forecasts = [found.forecast(int(row)) for row in rows_there]
        same = [one for one in forecasts if one.config.device == plan.config.device]
        best: dict[tuple[int, int], Any] = {}
        for one in sorted(same, key=lambda one: one.seconds.mid):
            best.setdefault((one.config.workers, one.config.servers), one)
        kept = [*best.values(), *(one for one in same if one.config == plan.config)]
        needed = {
            one.config.global_batch: one.epochs_needed.mid if one.epochs_needed else float(one.epochs) for one in kept
        }
        return cls(
            settings.job,
            settings.goal,
            settings.cluster,
            settings.engine,
            settings.engine_settings,
            settings.timeout,
            settings.stop_grace,
            plan.config,
            {one.config: one.seconds.mid for one in kept},
            needed,
            _interval(plan),
            plan_document(plan, settings.job),
        )

    @property
    def spread(self) -> float:
        """Return the standard deviation of the logarithm of its seconds."""
        return max(math.log(self.interval[2] / self.interval[1]) / Z90, 0.0)

    def submission(
        self, name: str, *, submit: float, deadline: float | None, team: str = "", priority: int = 0
    ) -> Submission:
        """Return the job as a policy sees it, its times on the cluster's clock."""
        return Submission(
            name=name,
            submit=submit,
            gpus=self.wants.units,
            seconds=self.interval[1],
            deadline=deadline,
            work=Steady(1.0, {_slots(config): 1.0 / seconds for config, seconds in self.seconds.items()}),
            wants=_slots(self.wants),
            device=SLOT,
            team=team,
            priority=priority,
            batch_size=self.wants.batch_size,
        )

    def document(self) -> dict[str, Any]:
        """Return it as plain JSON, for the store."""
        return {
            "job": rows.of_record(self.job),
            "goal": rows.of_record(self.goal),
            "cluster": rows.of_record(self.cluster),
            "engine": self.engine,
            "engine_settings": dict(self.engine_settings),
            "silence": self.silence,
            "stop_grace": self.stop_grace,
            "wants": rows.of_config(self.wants),
            "seconds": [[rows.of_config(config), seconds] for config, seconds in self.seconds.items()],
            "needed": [[batch, epochs] for batch, epochs in self.needed.items()],
            "interval": list(self.interval),
            "forecast": rows.plain(self.forecast),
        }

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Self:
        """Return a belief from its document."""
        low, mid, high = said["interval"]
        return cls(
            rows.record(Job, said["job"]),
            rows.record(Goal, said["goal"]),
            rows.record(Cluster, said["cluster"]),
            said["engine"],
            said["engine_settings"],
            said["silence"],
            said["stop_grace"],
            rows.config(said["wants"]),
            {rows.config(config): seconds for config, seconds in said["seconds"]},
            dict(said["needed"]),
            (low, mid, high),
            said["forecast"],
        )


def within_slots(settings: Settings, slots: int) -> Settings:
    """Return a job's settings on no more devices than a service has."""
    least = min((value for axis in settings.space.axes if axis.name == "workers" for value in axis.values), default=1)
    if isinstance(least, int) and least > slots:
        raise Infeasible(f"it needs at least {least} workers, the service has {slots}", "workers")
    cluster = settings.cluster
    devices = tuple(replace(device, count=min(device.count or slots, slots)) for device in cluster.devices)
    return replace(settings, cluster=replace(cluster, devices=devices))


def _slots(config: Config) -> Config:
    return replace(config, stages=tuple(replace(stage, device=SLOT) for stage in config.stages))


def _interval(plan: Plan) -> tuple[float, float, float]:
    seconds = plan.forecast.seconds
    return seconds.low, seconds.mid, max(seconds.high, seconds.mid)
