"""`cotune plan`: the cheapest config that reaches the target in time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Any

from cotune import documents, progress
from cotune.checkpoints import CHECKPOINT, LEAST_EPOCHS, can_continue, reused_device_seconds, trained
from cotune.cli import options
from cotune.cli.doubts import doubt_configs, doubt_examples, doubt_goal, doubt_script, doubt_target, refuse_per_cent
from cotune.cli.flags import GoalFlags, JobFlags, PredictorFlags, ReplayFlags, SpaceFlags, records_as_flags
from cotune.cli.help import MEASURING, SPACE, flag, rare_flag
from cotune.cli.output import emit_json, note, say, table
from cotune.errors import Infeasible, NotFound
from cotune.predict.evidence import Evidence
from cotune.project.project import Project
from cotune.remedies import explained
from cotune.space import Configs
from cotune.types import RECORDED, Job, Plan, Sample
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
    predictors = by.with_seed(seed)
    asked = goal.asked() | space.asked()
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
        else:
            doubt_goal(project.settings)
            doubt_script(project.settings.job, project.store.samples(project.settings.job))
            doubt_examples(project.settings.job, project.store)
            known = _measured(
                project, replay.max_samples, history=not no_history, seed=seed, may_measure=not no_measure
            )
        doubt_target(project.settings, known.samples)
        begun = time.perf_counter()
        planner = project.planner(known, predictors)
        try:
            chosen = (planner.from_scratch() if from_scratch else planner).plan(search)
        except Infeasible as error:
            project.save_refusal()
            error.facts["next_probe"] = None if project.recorded else project.next_probe(history=not no_history)
            raise
        took = time.perf_counter() - begun
        doubt_configs(project.settings.job, Configs.of([chosen.config]))
        project.save(chosen)
        _print(project, chosen, known.samples, took, json=json)
        if not (json or from_scratch):
            _show_rest(project.settings.job, chosen, known.samples)


def _measured(project: Project, max_samples: int, *, history: bool, seed: int, may_measure: bool) -> Evidence:
    """Return what is known of a job; where that is not enough, measure first what decides for the goal."""
    settings, known = project.settings, project.evidence(history=history)
    try:
        project.require_enough(known)
    except NotFound as missing:
        asked = settings.goal.target is not None or settings.goal.deadline is not None
        if not (may_measure and asked and settings.job.command):
            raise
        most = duration(settings.profile_seconds)
        note(f"{explained(missing)}; doing so now, for at most {most} (--no-measure refuses instead)")
        measured = project.profile(max_samples=max_samples, history=history, seed=seed)
        try:
            refuse_per_cent(settings, measured.samples)
        except Infeasible:
            project.save_refusal()
            raise
        return project.evidence(history=history)
    return known


def _print(project: Project, chosen: Plan, samples: Sequence[Sample], took: float, *, json: bool) -> None:
    if json:
        emit_json("plan", _document(project, chosen, samples, took))
        return
    _show(project, chosen, took)


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


def _show(project: Project, chosen: Plan, took: float) -> None:
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
    again = " with the same flags" if settings.engine == RECORDED else ""  # a plan of a recording is not kept
    say(f"searched  {counted(chosen.searched, 'config')}, in {took:.2f} s with fitting; next: cotune run{again}")


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
