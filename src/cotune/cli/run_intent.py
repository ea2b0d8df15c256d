"""What a run is to do: its config, its goal and the plan it follows, from what was planned and what the flags say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotune.cli.beginning import Beginning, unfinished
from cotune.cli.doubts import doubt_batches
from cotune.cli.options import require_taken, tell_other_goal
from cotune.cli.output import note
from cotune.documents import goal_words, price_words
from cotune.errors import CotuneError
from cotune.jobfile.settings import Settings
from cotune.predict.evidence import Predictors
from cotune.project import Project
from cotune.run.training import config_of_run, goal_of_run
from cotune.space import Configs
from cotune.types import Config, Goal, Plan


@dataclass(frozen=True, slots=True)
class RunFlags:
    """What the command line says of one run; None where the plan or the job file decides."""

    goal: Mapping[str, Any]  # target, deadline, epochs
    layout: Mapping[str, Any]  # workers, batch_size, servers, axes
    seed: int | None
    resume: bool
    from_scratch: bool
    restarts: int
    fixed: bool

    @property
    def whole_config(self) -> bool:
        """Return whether the flags alone say what to run."""
        return bool(self.layout["workers"] and self.layout["batch_size"])


@dataclass(frozen=True, slots=True)
class Intent:
    """What is to be run and for which goal; the plan, where the config is the plan's; where it was left, if resumed."""

    config: Config
    goal: Goal
    plan: Plan | None
    left_at: Beginning | None


def intent_of(project: Project, flags: RunFlags) -> Intent:
    """Return what to run: an unfinished run as it was, or the latest plan with the flags laid over it."""
    settings, kept = project.settings, project.store
    require_taken(settings.job, flags.layout["axes"])
    plan = kept.latest_plan(settings.job)
    left_at = unfinished(settings, kept, flags.seed) if flags.resume else None
    last = left_at.before if left_at else None
    device = settings.cluster.devices[0].name
    config = last.config if last else config_of_run(plan, settings.space, device, **flags.layout)
    plan = plan if plan and plan.config == config else None
    if plan and not last:
        tell_other_goal(settings, kept)
    flagged = [name for name, value in flags.goal.items() if value is not None]
    goal = goal_of_run(plan, settings.goal, flagged, last.goal if last else None)
    return Intent(config, goal, plan and _for_goal(project, plan, goal, flags.seed or 0), left_at)


def _for_goal(project: Project, plan: Plan, goal: Goal, seed: int) -> Plan | None:
    """Return the plan as it is, or with its config forecast anew where another goal is asked; None if none can be."""
    asked, planned = ((one.target, one.deadline, one.epochs) for one in (goal, plan.goal))
    if asked == planned:
        return plan
    try:
        return project.with_goal(goal).planner(predictors=Predictors(seed=seed)).follow(plan)
    except CotuneError:  # too little was measured to say anything of this goal
        return None


def announce(settings: Settings, intent: Intent) -> None:
    """Say what is about to run, and for which goal."""
    config = intent.config
    note(f"running {config}; goal: {goal_words(settings.job, intent.goal, settings.cluster.unit)}")
    for line in price_words(settings.cluster):
        note(f"price: {line}")
    doubt_batches(settings.job, Configs.of([config]))
    cores = len(os.sched_getaffinity(0))
    if settings.engine == "local" and config.device == "cpu" and config.workers > cores:
        note(f"{config.workers} workers share {cores} cores: their seconds say little about as many machines")
