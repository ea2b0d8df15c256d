"""`cotune run`: run the plan, with an honest ETA; forecast beside measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from cotune.cli.beginning import beginning, finished, first_start
from cotune.cli.options import (
    AllSamples,
    Axis,
    Budget,
    Command,
    Deadline,
    Engine,
    Epochs,
    Examples,
    File,
    Json,
    MaxSamples,
    Name,
    Pattern,
    RecordingFolder,
    StoreUrl,
    Target,
    Timeout,
    as_last_planned,
    chosen_axes,
    load_settings,
    require_command,
)
from cotune.cli.projects import Reading, job_project, recorded_project
from cotune.cli.run_intent import RunFlags, announce, intent_of
from cotune.cli.run_result import refuse_failure, show_result
from cotune.cli.training import train
from cotune.predict.evidence import Predictors
from cotune.project import Project
from cotune.reports.ended_runs import ended_run, trail_of


def run(
    command: Command = None,
    workers: Annotated[int | None, typer.Option("--workers", "-w", min=1, help="Instead of the plan's.")] = None,
    batch_size: Annotated[int | None, typer.Option("--batch-size", "-b", min=1, help="Instead of the plan's.")] = None,
    servers: Annotated[
        int | None, typer.Option("--servers", min=0, help="Parameter servers, instead of the plan's.")
    ] = None,
    axis: Axis = None,
    epochs: Epochs = None,
    target: Target = None,
    deadline: Deadline = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the last unfinished run.")] = False,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Go on from nothing, even if a probe has trained this recipe.")
    ] = False,
    examples: Examples = None,
    pattern: Pattern = None,
    timeout: Timeout = None,
    restarts: Annotated[
        int, typer.Option("--restarts", min=0, help="Starts without progress before a broken run is given up.")
    ] = 3,
    fixed: Annotated[bool, typer.Option("--fixed", help="Keep the layout, even if another would pay.")] = False,
    recording: RecordingFolder = None,
    max_samples: MaxSamples = 16,
    budget: Budget = None,
    all_samples: AllSamples = False,
    name: Name = None,
    file: File = None,
    store: StoreUrl = None,
    engine: Engine = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of everything random (default: that of what it goes on from).")
    ] = None,
    json: Json = False,
) -> None:
    """Run the latest plan, or a config of your own, to its target. Exit 6 when it misses."""

    goal = {"target": target, "deadline": deadline, "epochs": epochs}
    layout = {"workers": workers, "batch_size": batch_size, "servers": servers, "axes": chosen_axes(axis)}
    flags = RunFlags(goal, layout, seed, resume, from_scratch, restarts, fixed)
    if recording:
        with recorded_project(recording, goal, store, file, seed or 0) as project:
            _run_recording(project, Reading(max_samples, budget, all_samples), flags, json=json)
        return
    told = {"run": command, "name": name, "examples": examples, "pattern": pattern, "engine": engine}
    settings = load_settings(file, {**goal, **told, "timeout": timeout})
    require_command(settings)
    with job_project(settings, store) as project:
        as_planned = target is None and not resume
        asked = project.with_settings(as_last_planned(project.settings, project.store)) if as_planned else project
        _carry_out(asked, flags, json=json)


def _run_recording(project: Project, reading: Reading, flags: RunFlags, *, json: bool) -> None:
    """Replay a run of what is planned by the recording itself, where the flags do not say it all."""
    asked = any(flags.goal.values()) or not project.store.latest_plan(project.settings.job)
    if asked and not flags.whole_config:
        seed = flags.seed or 0
        project.save(project.planner(reading.evidence(project, seed), Predictors(seed=seed)).plan())
    _carry_out(project, replace(flags, fixed=True), json=json)  # what was recorded cannot be moved


def _carry_out(project: Project, flags: RunFlags, *, json: bool) -> None:
    """Run to the end, from where it was left or a probe has come to, and show what came of it."""
    settings, kept = project.settings, project.store

    intent = intent_of(project, flags)
    config, goal, plan = intent.config, intent.goal, intent.plan
    announce(settings, intent)
    begin = intent.left_at or beginning(settings, kept, config, goal, flags.seed, from_scratch=flags.from_scratch)
    sample = finished(settings, goal, begin, config)
    if sample is not None:
        kept.save(settings.job, sample)
    else:
        first = first_start(settings, config, goal, begin, plan)
        sample = train(project, first, plan, restarts=flags.restarts, fixed=flags.fixed)
    refuse_failure(settings.job, sample)
    run = ended_run(settings.job, settings.cluster, trail_of(sample, kept.samples(settings.job)), plan, goal)
    show_result(settings, goal, run, json=json)
