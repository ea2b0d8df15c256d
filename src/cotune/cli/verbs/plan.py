"""`cotune plan`: the cheapest config that reaches the target in time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Any

from cotune import documents, progress
from cotune.checkpoints import CHECKPOINT, LEAST_EPOCHS, can_continue, reused_device_seconds, trained
from cotune.cli import options
from cotune.cli.flags import GoalFlags, JobFlags, PredictorFlags, ReplayFlags, SpaceFlags, records_as_flags, request
from cotune.cli.help import MEASURING, SPACE, flag, rare_flag
from cotune.cli.output import emit_json, say, table
from cotune.errors import Infeasible
from cotune.project.project import Project
from cotune.types import Job, Plan, Sample
from cotune.units import counted, duration, number


@records_as_flags
def plan(
    *,
    goal: GoalFlags,
    space: SpaceFlags,
    search: Annotated[str, rare_flag(SPACE, "--search", help="How to search: grid (exact), tabu, ...")] = "grid",
    by: PredictorFlags,
    budget: options.Budget = None,
    replay: ReplayFlags,
    from_scratch: options.FromScratch = False,
    no_history: options.NoHistory = False,
    examples: options.Examples = None,
    pattern: options.Pattern = None,
    no_measure: Annotated[
        bool, flag(MEASURING, "--no-measure", help="Never measure; refuse what is not known.")
    ] = False,
    job: JobFlags,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Choose workers and batch size that meet a goal at the least cost.

    cotune plan --target accuracy=0.98 --deadline 2h
    cotune plan --recording recordings/lenet5-mnist-nodes --target 0.97
    """
    predictors, asked = by.with_seed(seed), request(goal, space)
    opened: AbstractContextManager[Project]
    if replay.recording:
        options.refuse_budget(budget)
        opened = job.replayed(replay.recording, asked)
    else:
        asked["budget"] = asked.get("budget", {}) | ({"profile": budget} if budget else {}) or None
        opened = job.project(job.load({"examples": examples, "pattern": pattern} | asked))
    with opened as project:
        if replay.recording:
            known = replay.evidence(project, seed)
        elif no_measure:
            known = project.evidence(history=not no_history)
        else:
            known = project.enough_evidence(max_samples=replay.max_samples, history=not no_history, seed=seed)
        begun = time.perf_counter()
        try:
            chosen = project.plan(
                predictor=predictors.seconds,
                accuracy_predictor=predictors.accuracy,
                search=search,
                evidence=known,
                history=not no_history,
                from_scratch=from_scratch,
                seed=seed,
            )
        except Infeasible as refused:
            best = refused.facts.get("plan")
            if not isinstance(best, Plan):
                raise
            took = time.perf_counter() - begun
            if json:
                refused.facts["document"] = _document(project, best, known.samples, took)
            else:
                _show(project, best, took, "not sure enough to be run")
            raise
        took = time.perf_counter() - begun
        if json:
            emit_json("plan", _document(project, chosen, known.samples, took))
            return
        again = " with the same flags" if replay.recording else ""  # a plan of a recording is not stored
        _show(project, chosen, took, f"next: cotune run{again}")
        if not from_scratch:
            _show_rest(project.settings.job, chosen, known.samples)


def _document(project: Project, chosen: Plan, samples: Sequence[Sample], took: float) -> dict[str, Any]:
    settings = project.settings
    return {
        "job": settings.job.name,
        "goal": documents.goal_document(settings.job, settings.goal, settings.cluster.unit),
        "plan": documents.plan_document(chosen, settings.job),
        "rivals": [documents.forecast_document(rival, settings.job) for rival in chosen.rivals],
        "profile": documents.profile_document(samples, reused_device_seconds(chosen.continues, samples)),
        "prices": documents.price_document(settings.cluster),
        "searched": {"configs": chosen.searched, "seconds": took},
    }


def _show(project: Project, chosen: Plan, took: float, afterwards: str) -> None:
    settings = project.settings
    forecast, goal = chosen.forecast, chosen.goal
    table(*documents.decision_table(settings.job, forecast, chosen.rivals))
    say()
    say(f"plan      {chosen.config}, at most {progress.words(settings.job, chosen.config, chosen.epochs)}")
    parts = [duration(forecast.seconds.mid) + (f" of {duration(goal.deadline)} allowed" if goal.deadline else "")]
    if forecast.accuracy is not None:
        asked = f" of {goal.target:g} asked" if goal.target is not None else ""
        parts.append(f"{settings.job.metric} {number(forecast.accuracy.mid)}{asked}")
    parts.append(f"{number(forecast.cost.mid)} {forecast.cost.unit}")
    parts.append(f"probability {forecast.probability:.2f}")
    say(f"forecast  {', '.join(parts)}")
    say(f"reason    {chosen.reason}")
    if goal.target is not None and forecast.accuracy is None:
        say("note      the recipe is fixed: time is for all its epochs, and P(met) does not count the target")
    for line in chosen.notes:
        say(f"note      {line}")
    for line in documents.price_words(settings.cluster):
        say(f"price     {line}")
    say(f"searched  {counted(chosen.searched, 'config')}, in {took:.2f} s with fitting; {afterwards}")


def _show_rest(job: Job, chosen: Plan, samples: Sequence[Sample]) -> None:
    """Say what is left for a run that goes on from a probe, or why it has to begin anew."""
    probe = next((sample for sample in samples if chosen.continues and sample.id == chosen.continues), None)
    rest = chosen.rest
    if probe is not None and rest is not None:
        done = progress.words(job, probe.config, trained(probe))
        if rest.seconds.mid == 0:
            how = "has trained" if chosen.goal.target is None else "met the target after"
            say(f"continues probe {probe.id}, which {how} {done}: nothing is left to train")
            return
        left = f"{duration(rest.seconds.mid)} and {number(rest.cost.mid)} {rest.cost.unit}"
        say(
            f"continues probe {probe.id}, which has trained {done}: {left} are left, probability {rest.probability:.2f}"
        )
        return
    same = chosen.config.global_batch
    long = [sample for sample in samples if sample.purpose == "probe" and trained(sample) >= LEAST_EPOCHS]
    if any(sample.config.global_batch == same for sample in long):
        left = f"no probe at global batch {same} has a {CHECKPOINT}"
        never = "the job writes no checkpoint into the folder named by COTUNE_CHECKPOINT"
        say(f"note      {left if any(map(can_continue, long)) else never}, so a run begins anew")
