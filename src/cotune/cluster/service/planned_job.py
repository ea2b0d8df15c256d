"""A job that was measured and planned: its seconds in every layout, the epochs it needs, and its plan.

Of each number of workers and servers on a type of device only the fastest config is kept, so that a policy chooses
among a handful. Jobs are served by engines that are up: their starts are those of probes after the first. Where the
units of a service are all alike (`device_types`) only the type that the plan chose is kept; a job calls them what its
file does, and is started so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from cotune.checkpoints import Resumable
from cotune.cluster.policy import Submission, capacity
from cotune.cluster.service.device_types import alike, as_served
from cotune.cluster.work import Steady
from cotune.documents import plan_document
from cotune.predict.starts import warm_start_gain
from cotune.project.project import Project
from cotune.store import rows
from cotune.types import Z90, Cluster, Config, Goal, Job, Plan

_LEAST_SECONDS = 1e-3  # of a training without its start
ALIKE = alike(1 << 30)  # where nobody says how many units there are


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """What a policy is told of a measured job, and all that starting it takes."""

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
    start: float = 0.0  # seconds of `seconds`, and of its interval, that every start takes

    @classmethod
    def learn(cls, project: Project, *, types: bool = False) -> Self:
        """Learn from a project's samples, or raise `Infeasible` where no config meets its goal even alone.

        With `types` the configs on all types of device are kept, for a policy to choose among.
        """
        evidence = project.evidence()
        settings, cold = project.settings, project.planner(evidence)
        planner = cold.sooner(warm_start_gain(evidence.all_samples))
        plan = planner.plan()
        free = planner.asking(replace(settings.goal, deadline=None, max_cost=None))
        found = replace(free, checkpoints=Resumable({})).assess()  # a job that is served begins anew
        rows_there = np.flatnonzero(found.feasible & np.isfinite(found.rate))
        forecasts = [found.forecast(int(row)) for row in rows_there]
        same = [one for one in forecasts if types or one.config.device == plan.config.device]
        best: dict[tuple[str, int, int], Any] = {}
        for one in sorted(same, key=lambda one: one.seconds.mid):
            best.setdefault((one.config.device, one.config.workers, one.config.servers), one)
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
            float(found.outlook.startup[found.outlook.configs.same(plan.config)][0]),
        )

    @property
    def spread(self) -> float:
        """Return the standard deviation of the logarithm of its seconds."""
        return max(math.log(self.interval[2] / self.interval[1]) / Z90, 0.0)

    def fits(self, cluster: Cluster) -> bool:
        """Say whether a service with such a cluster can give the job what its plan chose."""
        wanted = as_served(self.wants, cluster)
        return wanted.units <= capacity(cluster).get(wanted.device, 0)

    def submission(
        self,
        name: str,
        *,
        submit: float,
        deadline: float | None,
        cluster: Cluster = ALIKE,
        team: str = "",
        priority: int = 0,
    ) -> Submission:
        """Return the job as a policy sees it on a service's cluster, its times on the cluster's clock."""
        there = capacity(cluster)
        rates = {as_served(config, cluster): 1.0 / self._after_start(whole) for config, whole in self.seconds.items()}
        wants = as_served(self.wants, cluster)
        kinds = {config.device for config in rates}
        return Submission(
            name=name,
            submit=submit,
            gpus=self.wants.units,
            seconds=self._after_start(self.interval[1]),
            deadline=deadline,
            work=Steady(1.0, {config: rate for config, rate in rates.items() if config.device in there}),
            wants=wants,
            device=wants.device if len(kinds) == 1 else None,
            team=team,
            priority=priority,
            batch_size=self.wants.batch_size,
            restart=self.start,
        )

    def _after_start(self, whole: float) -> float:
        """Return what is left of the seconds of a whole training after a start."""
        return max(whole - self.start, _LEAST_SECONDS)

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
            "start": self.start,
        }

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Self:
        """Return a planned job from its document."""
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
            said["start"],
        )


def _interval(plan: Plan) -> tuple[float, float, float]:
    seconds = plan.forecast.seconds
    return seconds.low, seconds.mid, max(seconds.high, seconds.mid)
