"""`cotune run`: run the plan, with an honest ETA; forecast beside measured."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from cotune.cli import options
from cotune.cli.flags import JobFlags, ReplayFlags, records_as_flags
from cotune.cli.help import MEASURING, OUTPUT, SPACE, flag, rare_flag
from cotune.cli.output import note
from cotune.cli.run_result import account_document, show_result
from cotune.documents import goal_words
from cotune.errors import Infeasible
from cotune.project.project import Project
from cotune.project.run import ProjectRun, RunLayout, RunOptions
from cotune.run.supervise import RunEvent
from cotune.types import Plan


@records_as_flags
def run(
    *,
    workers: Annotated[
        int | None, flag(SPACE, "--workers", "-w", help="Workers, instead of the plan's.", min=1)
    ] = None,
    batch_size: Annotated[
        int | None, flag(SPACE, "--batch-size", "-b", help="Batch of each worker, instead of the plan's.", min=1)
    ] = None,
    servers: Annotated[
        int | None, rare_flag(SPACE, "--servers", help="Parameter servers, instead of the plan's.", min=0)
    ] = None,
    axis: options.Axis = None,
    plan: Annotated[str | None, rare_flag(SPACE, "--plan", help="The id of the plan to run (the latest).")] = None,
    epochs: options.Epochs = None,
    target: options.Target = None,
    deadline: options.Deadline = None,
    resume: Annotated[bool, flag(MEASURING, "--resume", help="Go on with the last unfinished run.")] = False,
    from_scratch: options.FromScratch = False,
    examples: options.Examples = None,
    pattern: options.Pattern = None,
    timeout: options.Timeout = None,
    restarts: Annotated[
        int, rare_flag(MEASURING, "--restarts", help="Starts without progress before a broken run is given up.", min=0)
    ] = 3,
    fixed: Annotated[bool, flag(MEASURING, "--fixed", help="Keep the layout, even if another would pay.")] = False,
    replay: ReplayFlags,
    job: JobFlags,
    engine: options.Engine = None,
    seed: Annotated[
        int | None,
        rare_flag(OUTPUT, "--seed", help="Seed of everything random (default: that of what it resumes)."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Run the latest plan, or a config of your own, to its target; exit 6 if missed.

    cotune run
    cotune run -w 4 -b 64 --epochs 3
    cotune run --resume
    """
    goal: dict[str, Any] = {"target": target, "deadline": deadline, "epochs": epochs}
    layout = RunLayout(workers, batch_size, servers, options.chosen_axes(axis))
    how = RunOptions(seed, resume, from_scratch, restarts, fixed)
    if replay.recording:
        with job.replayed(replay.recording, goal, seed or 0) as project:
            itself = layout == RunLayout() and not epochs and _measures_itself(project, replay)
            planned = project.store.latest_plan(project.settings.job) and not any(goal.values())
            if not (layout.whole or itself or planned):
                project.plan(evidence=replay.evidence(project, seed or 0), seed=seed or 0)
            _carry_out(project, project.run(layout=layout, options=how, **goal), json=json)
        return
    told = {**goal, "examples": examples, "pattern": pattern, "engine": engine, "timeout": timeout}
    with job.project(job.load(told)) as project:
        as_planned = target is None and not resume and plan is None
        asked = (
            project.with_settings(options.as_last_planned(project.settings, project.store)) if as_planned else project
        )
        if plan is not None:
            asked = project.with_settings(options.as_planned(project.settings, project.store, plan))
        chosen = None if plan is None else asked.store.plan_of_id(plan).plan
        watched = sys.stdin.isatty() and sys.stderr.isatty() and not json
        if watched and as_planned and not (layout.whole or epochs or deadline):
            chosen = _offered(asked)
        _carry_out(asked, asked.run(chosen, layout=layout, options=how, **goal), json=json)


def _offered(project: Project) -> Plan | None:
    """Return the most probable plan for a goal that was refused, if it is wanted; None where none was refused."""
    refused = project.for_last_refused()
    try:
        return refused.plan() if refused else None
    except Infeasible as error:
        plan = error.facts.get("plan")
        goal = goal_words(project.settings.job, refused.settings.goal, project.settings.cluster.unit) if refused else ""
        if not isinstance(plan, Plan):
            raise
        words = f"for {goal} the most probable plan, {plan.config}, has P(met) {plan.probability:.2f}; start it?"
        if not typer.confirm(words, err=True):
            raise
        return plan


def _measures_itself(project: Project, replay: ReplayFlags) -> bool:
    """Return whether a replayed run has neither a plan nor samples, and a target to find a config for."""
    job = project.settings.job
    limited = replay.all_samples or replay.max_device_seconds is not None
    untouched = not project.store.samples(job) and not project.store.latest_plan(job)
    return project.settings.goal.target is not None and untouched and not limited


def _carry_out(project: Project, run: ProjectRun, *, json: bool) -> None:
    """Run to the end, and show what came of it."""
    settings = project.settings
    note(f"running {run.config}; goal: {goal_words(settings.job, run.goal, settings.cluster.unit)}")
    events: list[RunEvent] = []
    ended = run.result(events.append if project.recorded else lambda _: None)
    account = account_document(run, ended, events) if project.recorded and run.itself else {}
    show_result(settings, run.goal, ended, account, json=json)
