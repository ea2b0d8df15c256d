"""`cotune run`: run the plan, with an honest ETA; forecast beside measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotune.cli.options import (
    Axis,
    Command,
    Deadline,
    Engine,
    Epochs,
    Examples,
    File,
    Json,
    Name,
    Pattern,
    StoreUrl,
    Target,
    Timeout,
)
from cotune.cli.recording import AllSamples, Budget, MaxSamples, RecordingFolder

if TYPE_CHECKING:
    from cotune.cli.recording import ReplayedJob
    from cotune.cli.run_intent import RunFlags
    from cotune.jobfile.settings import Settings
    from cotune.store import Store


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
    from cotune.cli.options import chosen_axes
    from cotune.cli.recording import Reading, replay
    from cotune.cli.run_intent import RunFlags

    goal = {"target": target, "deadline": deadline, "epochs": epochs}
    layout = {"workers": workers, "batch_size": batch_size, "servers": servers, "axes": chosen_axes(axis)}
    flags = RunFlags(goal, layout, seed, resume, from_scratch, restarts, fixed)
    if recording:
        played = replay(recording, goal, Reading(max_samples, budget, all_samples), file, seed or 0)
        _run_recording(played, store, flags, json=json)
        return
    told = {"run": command, "name": name, "examples": examples, "pattern": pattern, "engine": engine}
    _run_job(file, told | {"timeout": timeout}, store, flags, json=json)


def _run_job(file: Path | None, told: dict[str, Any], store: str | None, flags: RunFlags, *, json: bool) -> None:
    from cotune.cli.options import as_last_planned, load_settings, open_store, require_command
    from cotune.jobfile.metric import as_measured

    settings = load_settings(file, {**flags.goal, **told})
    require_command(settings)
    with open_store(store) as kept:
        as_planned = flags.goal["target"] is None and not flags.resume
        settings = as_measured(settings, kept)
        _carry_out(as_last_planned(settings, kept) if as_planned else settings, kept, flags, json=json)


def _run_recording(played: ReplayedJob, store: str | None, flags: RunFlags, *, json: bool) -> None:
    """Replay a run of what is planned by the recording itself, where the flags do not say it all."""
    from dataclasses import replace

    settings = played.settings
    with played.store(store) as kept:
        asked = any(flags.goal.values()) or not kept.latest_plan(settings.job)
        if asked and not flags.whole_config:
            _plan_anew(played, kept, store, flags.seed or 0)
        _carry_out(settings, kept, replace(flags, fixed=True), json=json)  # what was recorded cannot be moved


def _plan_anew(played: ReplayedJob, kept: Store, store: str | None, seed: int) -> None:
    """Plan by what is replayed of a recording, and keep it for the run to go on from."""
    from cotune.cli.forecasting import Grounds
    from cotune.cli.verbs.plan import planned

    settings, samples = played.settings, played.kept_samples(store, seed)
    if store is None and not played.reading.everything:  # a store that is named has them by now
        for sample in samples:
            kept.save(settings.job, sample)
    kept.save_plan(settings.job, planned(settings, samples, Grounds(seed)), settings.space, settings.cluster)


def _carry_out(settings: Settings, kept: Store, flags: RunFlags, *, json: bool) -> None:
    """Run to the end, from where it was left or a probe has come to, and show what came of it."""
    from cotune.cli.beginning import beginning, finished, first_start
    from cotune.cli.run_intent import announce, intent_of
    from cotune.cli.run_result import refuse_failure, show_result
    from cotune.cli.training import train
    from cotune.reports.ended_runs import ended_run, trail_of

    intent = intent_of(settings, kept, flags)
    config, goal, plan = intent.config, intent.goal, intent.plan
    announce(settings, intent)
    begin = intent.left_at or beginning(settings, kept, config, goal, flags.seed, from_scratch=flags.from_scratch)
    sample = finished(settings, goal, begin, config)
    if sample is not None:
        kept.save(settings.job, sample)
    else:
        first = first_start(settings, config, goal, begin, plan)
        sample = train(settings, kept, first, plan, restarts=flags.restarts, fixed=flags.fixed)
    refuse_failure(settings.job, sample)
    run = ended_run(settings.job, settings.cluster, trail_of(sample, kept.samples(settings.job)), plan, goal)
    show_result(settings, goal, run, json=json)
