"""From the store to forecasts, for the verbs that predict and plan."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from cotune.checkpoints import Kept, joined
from cotune.cli.output import note
from cotune.errors import CotuneError, NotFound, OverBudget
from cotune.forecast import LEAST_EVALUATIONS, Forecaster
from cotune.jobfile.settings import Settings, find
from cotune.types import RECORDED, Goal, Plan, Sample

if TYPE_CHECKING:
    from cotune.predict.history import History
    from cotune.store import Store


@dataclass(frozen=True, slots=True)
class Grounds:
    """What forecasts rest on beside the samples of a job: jobs like it, predictors by name, the seed of the draws."""

    seed: int
    history: History | None = None
    predictor: str = "auto"
    accuracy: str | None = "auto"


def with_model(settings: Settings, kept: Store) -> Settings:
    """Return the settings whose job carries what is counted of the model that its file names."""
    if settings.model is None or settings.job.model is not None:
        return settings
    counted = kept.counted_model(settings.job)
    if counted is None:
        try:
            counter = importlib.import_module("cotune.modelling.model_counter")  # a room that may not be installed
            counted = counter.counted(settings.model, settings.inputs)
        except (CotuneError, ModuleNotFoundError) as error:
            note(f"the model {settings.model} cannot be counted, so its memory must be measured: {error}")
    return replace(settings, job=replace(settings.job, model=counted))


def recalled(settings: Settings, kept: Store, *, wanted: bool = True) -> History | None:
    """Return what jobs like this one showed before, if anything did and it is wanted."""
    from cotune.predict.history import History

    if not wanted:
        return None
    job = with_model(settings, kept).job
    return History.of(job, settings.cluster, kept.alike(job)) or None


def known_samples(settings: Settings, kept: Store, history: History | None) -> list[Sample]:
    """Return the samples of the job, or raise `NotFound` when neither they nor its history tell its speed."""
    samples = joined(kept.samples(settings.job))
    if any(sample.epoch_seconds is not None for sample in (*samples, *(history.blended(()) if history else ()))):
        return samples
    if not settings.job.command and find(Path.cwd()) is None:
        raise NotFound(
            f"there is no cotune.yaml here or above ({Path.cwd()}): write one with cotune init, "
            "or give the command after --"
        )
    others = kept.others(settings.job)
    changed = f" ({others} samples are of an earlier form of this job: its command, data or metric changed)"
    raise NotFound(
        f"no samples of job {settings.job.name!r} in {kept.label}{changed if others else ''}; "
        "measure it first: cotune profile"
    )


def needs_curves(settings: Settings) -> bool:
    """Return whether the goal asks for an accuracy; a fixed recipe is the user's and needs no model of it."""
    fixed = settings.space.global_batch is not None
    return not fixed and (settings.goal.target is not None or settings.goal.prefer == "accurate")


def require_curves(settings: Settings, samples: Sequence[Sample], history: History | None = None) -> None:
    """Refuse to judge a target by learning curves that are not there, or that end before they say anything."""
    if not needs_curves(settings):
        return
    job, goal = settings.job, settings.goal
    known = history.blended(samples) if history else samples
    longest = max((len(sample.curve) for sample in known), default=0)
    if settings.engine == RECORDED:
        # It may hold two evaluations in all; what was replayed of them has to do.
        if longest == 0:
            raise OverBudget("no learning curve was replayed: allow a larger --budget or more --max-samples")
        return
    reached = any(job.reached(goal.target, sample) for sample in known)
    if longest == 0 or (longest < LEAST_EVALUATIONS and not reached and goal.max_epochs > longest):
        words = "no evaluation" if longest == 0 else f"{longest} evaluation{'s' if longest > 1 else ''}"
        raise NotFound(
            f"the longest learning curve of {job.name} has {words} of {job.metric}: too little to judge a target by; "
            "measure more: cotune profile --budget 5m (the job must report its metric)"
        )


def goal_flags(settings: Settings) -> str:
    """Return the flags by which a verb is asked for the same target and deadline."""
    job, goal = settings.job, settings.goal
    level = "" if goal.target is None else f"{job.metric}{'>=' if job.better == 'higher' else '<='}{goal.target:g}"
    asked = f" --target {quote(level)}" if level else ""
    return asked + ("" if goal.deadline is None else f" --deadline {goal.deadline:g}s")


def for_goal(settings: Settings, kept: Store, plan: Plan, goal: Goal, seed: int) -> Plan | None:
    """Return the plan as it is, or with its config forecast anew where another goal is asked; None if none can be."""
    asked, planned = ((one.target, one.deadline, one.epochs) for one in (goal, plan.goal))
    if asked == planned:
        return plan
    from cotune.plan.assess import assess
    from cotune.space import Configs

    history, known, configs = recalled(settings, kept), kept.samples(settings.job), Configs.of([plan.config])
    wanted = replace(settings, goal=goal)
    try:
        samples = known_samples(wanted, kept, history)
        require_curves(wanted, samples, history)
        outlook = make_forecaster(wanted, samples, Grounds(seed, history))(configs, goal.max_epochs)
    except CotuneError:  # too little was measured to say anything of this goal
        return None
    trained = Kept.among(known).epochs(settings.job, goal, configs)
    found = assess(outlook, goal, settings.cluster, settings.job.sign, trained)
    return replace(plan, forecast=found.forecast(0), goal=goal, rivals=(), notes=outlook.notes, rest=found.rest(0))


def make_forecaster(settings: Settings, samples: Sequence[Sample], on: Grounds) -> Forecaster:
    """Return the waist: a function from configs to forecasts, with no accuracy where the goal asks for none."""
    return full_forecaster(settings, samples, on if needs_curves(settings) else replace(on, accuracy=None))


def full_forecaster(settings: Settings, samples: Sequence[Sample], on: Grounds) -> Forecaster:
    """Return the waist with accuracy by a predictor, whatever the goal asks for."""
    from cotune.predict import forecaster

    known = on.history.blended(samples) if on.history else samples
    learnt = forecaster(
        settings.job, known, settings.cluster, predictor=on.predictor, accuracy=on.accuracy, seed=on.seed
    )
    return on.history.doubted(learnt, samples) if on.history else learnt
