"""`cotune run`: run the plan, tell an honest ETA, and put forecast beside measured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotune.cli._options import (
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
from cotune.cli._recording import AllSamples, Budget, MaxSamples, RecordingFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cotune.cli._output import Progress
    from cotune.config import Settings
    from cotune.predict.eta import Countdown
    from cotune.run import Launch
    from cotune.store import Store
    from cotune.types import Config, Goal, Plan, Sample

FINISH_SECONDS = 60.0  # what a job may take to finish by itself after its last epoch
PATIENCE = 10.0  # times the slowest epoch that was forecast, before a silent run counts as hanging
GAPS = 20.0  # times the longest silence so far, where nothing was forecast


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
    placement: Annotated[
        Path | None, typer.Option("--placement", help="Run the stages of a plan written by cotune place --json.")
    ] = None,
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
    if placement is not None:
        from cotune.cli._placement import run_placement
        from cotune.errors import UsageError

        if workers or batch_size or servers or axis or epochs or target or deadline or resume or recording:
            raise UsageError("--placement fixes the stages; give what is trained after --, such as -- --batches 200")
        run_placement(placement, command, seed or 0, json=json)
        return
    from cotune.cli._beginning import finished, first_start, fresh, probed, unfinished
    from cotune.cli._forecasting import for_goal
    from cotune.cli._options import as_last_planned, chosen_axes, load_settings, open_store, tell_other_goal
    from cotune.cli._recording import Reading, replay
    from cotune.errors import NotFound
    from cotune.run.training import config_of_run, goal_of_run

    asked = {"target": target, "deadline": deadline, "epochs": epochs}
    told = {"run": command, "name": name, "examples": examples, "pattern": pattern, "engine": engine}
    played = None
    if recording:
        played = replay(recording, asked, Reading(max_samples, budget, all_samples), file, seed or 0)
        fixed = True  # what was recorded cannot be moved
    settings = played.settings if played else load_settings(file, asked | told | {"timeout": timeout})
    if not settings.job.command and not played:
        raise NotFound("no command to run: give it after --, or as `run:` in cotune.yaml (`cotune init` writes one)")
    with played.store(store) if played else open_store(store) as kept:
        if played and not (workers and batch_size) and (any(asked.values()) or not kept.latest_plan(settings.job)):
            _plan_anew(
                settings, kept, played.kept_samples(store, seed or 0), seed or 0, save=store is None and not all_samples
            )
        settings = settings if target or played or resume else as_last_planned(settings, kept)
        plan = kept.latest_plan(settings.job)
        begin = unfinished(settings, kept, seed) if resume else None
        layout = {"workers": workers, "batch_size": batch_size, "servers": servers}
        given: dict[str, Any] = {**layout, "axes": chosen_axes(axis)}
        last = begin.before if begin else None
        config = last.config if last else config_of_run(plan, settings.space, settings.cluster.devices[0].name, **given)
        plan = plan if plan and plan.config == config else None
        flags = [key for key, value in asked.items() if value is not None]
        if plan and not last:
            tell_other_goal(settings, kept)
        goal = goal_of_run(plan, settings.goal, flags, last.goal if last else None)
        plan = plan and for_goal(settings, kept, plan, goal, seed or 0)
        _announce(settings, config, goal)
        if begin is None:
            begin = (None if from_scratch else probed(settings, kept, config, goal, None if played else seed)) or fresh(
                seed
            )
        done = finished(settings, goal, begin, config)
        if done is not None:
            kept.save(settings.job, done)
        first = first_start(settings, config, goal, begin, plan)
        sample = done or _train(settings, kept, first, plan, restarts=restarts, fixed=fixed)
        before = _before(kept, sample)
    _refuse_failure(sample)
    _refuse_shortfall(_show(settings, goal, plan, sample, before, json=json), quiet=json)


def _refuse_failure(sample: Sample) -> None:
    """Raise what a run that failed has to say."""
    from cotune.errors import EngineError, NotFound
    from cotune.run.recorded import NOT_RECORDED

    if sample.failure and sample.failure.startswith(NOT_RECORDED):
        raise NotFound(sample.failure)
    if sample.failed:
        raise EngineError(f"{sample.config} failed: {sample.failure}; its logs are in {sample.folder}")


def _refuse_shortfall(shortfall: str | None, *, quiet: bool) -> None:
    """Raise what a run missed of its goal; `quiet` where the document has said it."""
    from cotune.errors import Missed

    if shortfall and quiet:
        raise typer.Exit(Missed.exit_code)
    if shortfall:
        raise Missed(shortfall)


def _plan_anew(settings: Settings, kept: Store, samples: list[Sample], seed: int, *, save: bool) -> None:
    """Plan by what was replayed of a recording, and keep it for the run to go on from."""
    from cotune.cli.plan import planned

    for sample in samples if save else ():
        kept.save(settings.job, sample)
    kept.save_plan(settings.job, planned(settings, samples, seed=seed), settings.space, settings.cluster)


def _announce(settings: Settings, config: Config, goal: Goal) -> None:
    """Say what is about to run, and for which goal."""
    from cotune.cli._output import note
    from cotune.documents import goal_words, price_words

    note(f"running {config}; goal: {goal_words(settings.job, goal, settings.cluster.unit)}")
    for line in price_words(settings.cluster):
        note(f"price: {line}")
    cores = len(os.sched_getaffinity(0))
    if settings.engine == "local" and config.device == "cpu" and config.workers > cores:
        note(f"{config.workers} workers share {cores} cores: their seconds say little about as many machines")


def _before(kept: Store, sample: Sample) -> list[Sample]:
    """Return the earlier starts that a run goes on from, the latest first."""
    before = []
    while sample.resumed_from:
        sample = kept.sample(sample.resumed_from)
        before.append(sample)
    return before


def _train(
    settings: Settings, kept: Store, first: tuple[Launch, Sample], plan: Plan | None, *, restarts: int, fixed: bool
) -> Sample:
    """Run to the end, in several starts if need be; every step is in the store before the next."""
    from cotune.cli._moving import Moving
    from cotune.cli._output import note, progress
    from cotune.cli._running import running_engine
    from cotune.predict.eta import Countdown, usual_scatter
    from cotune.run.attempt import Until
    from cotune.supervise import supervise

    launch, sample = first
    silence = settings.timeout or (60 + PATIENCE * plan.forecast.epoch_seconds.high if plan else None)
    until = Until(epochs=launch.epochs, silence=silence, grace=FINISH_SECONDS, gaps=GAPS)
    here = settings.engine == "local" and not settings.engine_settings.get("nodes")
    usual = usual_scatter(os.getloadavg()[0], len(os.sched_getaffinity(0))) if here else usual_scatter(0.0, 1)
    countdown = Countdown(usual)
    with running_engine(settings, "cotune run --resume") as engine, progress(float(launch.epochs)) as shown:
        change = Moving(settings, kept, launch, None if fixed else plan)
        for moment in supervise(engine, launch, until, sample, restarts=restarts, change=change):
            sample = moment.sample
            kept.save(settings.job, sample)
            if moment.note:
                note(moment.note)
            _tell(shown, settings, sample, launch, plan, countdown)
    return sample


def _tell(
    shown: Progress, settings: Settings, sample: Sample, launch: Launch, plan: Plan | None, countdown: Countdown
) -> None:
    """Show how far a run is, and its ETA as the run itself tells it."""
    from cotune.predict.eta import expected_end
    from cotune.run.training import reached

    countdown.see(sample)
    if sample.epoch_seconds is None:  # no ETA before the first real step
        shown.update(0.0, f"starting {sample.config}")
        return
    accuracy = f", {settings.job.metric} {sample.accuracy:.4g}" if sample.accuracy is not None else ""
    words = f"epoch {sample.epochs:.3g} of at most {launch.epochs}{accuracy}"
    if reached(settings.job, launch.target, sample):
        shown.update(sample.epochs, f"{words}: target met")
        return
    left = countdown.left(expected_end(settings.job, sample, epochs=launch.epochs, target=launch.target, plan=plan))
    if left is None:
        shown.update(sample.epochs, words)
        return
    shown.update(sample.epochs, words, left.mid, (left.low, left.high))


def _show(
    settings: Settings, goal: Goal, plan: Plan | None, sample: Sample, before: Sequence[Sample], *, json: bool
) -> str | None:
    """Print forecast beside measured; return what was missed of the goal."""
    from dataclasses import replace

    from cotune.cli._output import emit_json, say, table
    from cotune.documents import goal_document, plan_document, price_document, sample_document, spread
    from cotune.reports.ended_runs import cost_of
    from cotune.run.training import missed
    from cotune.units import number

    starts = [start for start in (sample, *before) if start.purpose == "run"]
    probe = next((start for start in before if start.purpose == "probe"), None)
    unit, trained = settings.cluster.unit, probe.curve if probe else ()
    sample = replace(sample, curve=sample.curve or trained)
    seconds = sum(start.seconds for start in starts)
    cost = cost_of(starts, settings.cluster)
    shortfall = missed(settings.job, goal, sample, seconds=seconds, cost=cost, unit=unit)
    if json:
        document = {
            "job": settings.job.name,
            "goal": goal_document(settings.job, goal, unit),
            "plan": plan_document(plan) if plan else None,
            "run": sample_document(sample) | {"seconds": seconds, "cost": {"value": cost, "unit": unit}},
            "prices": price_document(settings.cluster),
            "starts": len(starts),
            "continued": _continued_document(probe),
            "met": shortfall is None,
            "missed": shortfall,
        }
        emit_json("run", document)
        return shortfall
    forecast = (plan.rest if probe and plan.rest else plan.forecast) if plan else None
    rows = [
        ("seconds", spread(forecast.seconds) if forecast else "", number(seconds, 3)),
        ("seconds per epoch", spread(forecast.epoch_seconds) if forecast else "", _known(sample.epoch_seconds, 3)),
        (settings.job.metric, spread(forecast.accuracy, 4) if forecast else "", _known(sample.accuracy)),
        (f"cost ({unit})", spread(forecast.cost) if forecast else "", number(cost, 3)),
    ]
    table(("", "forecast (10th..90th percentile)", "measured"), rows)
    several = f" in {len(starts)} starts" if len(starts) > 1 else ""
    several += f" ({trained[-1].epoch:g} of them by probe {probe.id})" if probe and trained else ""
    say(f"{sample.config}: {sample.epochs:g} epochs{several}, {shortfall or 'goal met'}; logs in {sample.folder}")
    return shortfall


def _continued_document(probe: Sample | None) -> dict[str, Any] | None:
    """Return the probe that a run went on from: only the rest was the run's own."""
    if probe is None:
        return None
    from cotune.reuse import trained

    return {"sample": probe.id, "epochs": trained(probe), "device_seconds": probe.device_seconds}


def _known(value: float | None, digits: int = 4) -> str:
    from cotune.units import number

    return "unknown" if value is None else number(value, digits)
