"""`cotune run`: run the plan, tell an honest ETA, and put forecast beside measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotune.cli._options import (
    Command,
    Deadline,
    Engine,
    Epochs,
    Examples,
    File,
    Json,
    Name,
    Pattern,
    Seed,
    StoreUrl,
    Target,
    Timeout,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cotune.cli._output import Progress
    from cotune.config import Settings
    from cotune.store import Store
    from cotune.types import Config, Goal, Plan, Sample


def run(
    command: Command = None,
    workers: Annotated[int | None, typer.Option("--workers", "-w", min=1, help="Instead of the plan's.")] = None,
    batch_size: Annotated[int | None, typer.Option("--batch-size", "-b", min=1, help="Instead of the plan's.")] = None,
    epochs: Epochs = None,
    target: Target = None,
    deadline: Deadline = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the last unfinished run.")] = False,
    examples: Examples = None,
    pattern: Pattern = None,
    timeout: Timeout = None,
    name: Name = None,
    file: File = None,
    store: StoreUrl = None,
    engine: Engine = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run the latest plan (or a config given by flags) to its target; exit 6 when it misses."""
    from cotune.cli._options import load_settings, open_store
    from cotune.errors import EngineError, Missed, NotFound

    overrides: dict[str, Any] = {
        "run": command,
        "name": name,
        "examples": examples,
        "pattern": pattern,
        "target": target,
        "deadline": deadline,
        "epochs": epochs,
        "timeout": timeout,
        "engine": engine,
        # A config given by flags need not lie in the space; these keep the job file's checks quiet.
        "search": {"batch_size": [batch_size]} if batch_size else None,
    }
    settings = load_settings(file, overrides)
    if not settings.job.command:
        raise NotFound("no command to run: give it after --, or as `run:` in cotune.yaml (`cotune init` writes one)")
    with open_store(store) as kept:
        plan = None if workers and batch_size else kept.latest_plan(settings.job)
        begin = _last_unfinished(settings, kept) if resume else None
        config = begin.config if begin else _config(settings, plan, workers, batch_size)
        goal = _goal(settings, plan)
        sample = _train(settings, kept, config, goal, begin, plan, seed)
    if sample.failed:
        raise EngineError(f"{config} failed: {sample.failure}; its logs are in {sample.folder}")
    _show(settings, goal, plan, sample, json=json)
    if missed := _missed(settings, goal, sample):
        raise Missed(missed)


def _config(settings: Settings, plan: Plan | None, workers: int | None, batch_size: int | None) -> Config:
    from dataclasses import replace

    from cotune.errors import NotFound
    from cotune.types import Config, Stage

    if workers and batch_size:
        return Config.data_parallel(batch_size, workers, settings.cluster.devices[0].name)
    if plan is None:
        raise NotFound(
            f"no plan for {settings.job.name}: run `cotune plan` first, or give both --workers and --batch-size"
        )
    stages = (Stage(plan.config.device, workers),) if workers else plan.config.stages
    return replace(plan.config, stages=stages, batch_size=batch_size or plan.config.batch_size)


def _goal(settings: Settings, plan: Plan | None) -> Goal:
    """Return the plan's goal with what the flags and the job file now say laid over it."""
    from dataclasses import replace

    asked = settings.goal
    if plan is None:
        return asked
    return replace(
        plan.goal,
        target=asked.target if asked.target is not None else plan.goal.target,
        deadline=asked.deadline if asked.deadline is not None else plan.goal.deadline,
        epochs=asked.epochs,
        max_epochs=asked.epochs or plan.epochs,
    )


def _last_unfinished(settings: Settings, kept: Store) -> Sample:
    from pathlib import Path

    from cotune.cli._output import note
    from cotune.errors import NotFound

    unfinished = kept.unfinished_runs(settings.job)
    if not unfinished:
        raise NotFound(f"no unfinished run of {settings.job.name} to resume")
    last = unfinished[0]
    checkpoint = Path(last.folder) / "checkpoint"
    if not checkpoint.is_dir() or not any(checkpoint.iterdir()):
        note(f"run {last.id} left no checkpoint in {checkpoint}: it starts from the beginning")
    return last


def _train(
    settings: Settings, kept: Store, config: Config, goal: Goal, begin: Sample | None, plan: Plan | None, seed: int
) -> Sample:
    """Run to the end; every step is in the store before the next."""
    from pathlib import Path

    from cotune.cli._options import runs_folder
    from cotune.cli._output import progress
    from cotune.cli._running import running_engine
    from cotune.profile import new_id, timestamp
    from cotune.run import Launch
    from cotune.run.attempt import Until, attempt
    from cotune.types import Sample

    name = new_id()
    folder = Path(begin.folder) if begin else runs_folder() / name
    epochs = goal.epochs or goal.max_epochs
    stop_at = None if goal.prefer == "accurate" else goal.target
    launch = Launch(name, settings.job, config, epochs, folder, stop_at, seed, resume=begin is not None)
    sample = Sample(
        config,
        epochs=begin.epochs if begin and _resumable(folder) else 0.0,
        purpose="run",
        id=name,
        started=timestamp(),
        engine=settings.engine,
        folder=str(folder),
        resumed_from=begin.id if begin else None,
    )
    with running_engine(settings) as engine, progress(float(epochs)) as shown:
        for sample in attempt(engine, launch, Until(silence=settings.timeout), sample):  # noqa: B020  # it grows
            kept.save(settings.job, sample)
            _tell(shown, settings, sample, epochs, plan)
    return sample


def _resumable(folder: Any) -> bool:
    checkpoint = folder / "checkpoint"
    return checkpoint.is_dir() and any(checkpoint.iterdir())


def _tell(shown: Progress, settings: Settings, sample: Sample, epochs: int, plan: Plan | None) -> None:
    if sample.epoch_seconds is None:  # no ETA before the first real step
        shown.update(0.0, f"starting {sample.config}")
        return
    each = sample.epoch_seconds + (sample.terms.evaluation or 0.0) + (sample.terms.checkpoint or 0.0)
    expected = float(epochs)
    if plan is not None and plan.forecast.epochs_needed is not None:
        # A run that is past what was expected needs at least one more evaluation.
        expected = min(epochs, max(plan.forecast.epochs_needed.mid, math.floor(sample.epochs) + 1))
    accuracy = f", {settings.job.metric} {sample.accuracy:.4g}" if sample.accuracy is not None else ""
    left = max(expected - sample.epochs, 0.0) * each
    shown.update(sample.epochs, f"epoch {sample.epochs:.3g} of at most {epochs}{accuracy}", left)


def _missed(settings: Settings, goal: Goal, sample: Sample) -> str | None:
    from cotune.units import duration

    job, parts = settings.job, []
    if goal.target is not None:
        best = max((job.sign * point.accuracy for point in sample.curve), default=None)
        if best is None or best < job.sign * goal.target:
            reached = "nothing was reported" if best is None else f"{job.metric} reached {job.sign * best:.4g}"
            parts.append(f"{reached}, {goal.target:g} was asked")
    if goal.deadline is not None and sample.seconds > goal.deadline:
        parts.append(f"it took {duration(sample.seconds)}, {duration(goal.deadline)} was asked")
    return "missed: " + "; ".join(parts) if parts else None


def _show(settings: Settings, goal: Goal, plan: Plan | None, sample: Sample, *, json: bool) -> None:
    from cotune.cli._documents import goal_document, plan_document, sample_document, spread
    from cotune.cli._output import emit_json, say, table
    from cotune.plan.assess import rates
    from cotune.space import Configs
    from cotune.units import number

    cost = sample.seconds * float(rates(Configs.of([sample.config]), settings.cluster)[0])
    planned = plan if plan is not None and plan.config == sample.config else None
    missed = _missed(settings, goal, sample)
    if json:
        document = {
            "job": settings.job.name,
            "goal": goal_document(goal),
            "plan": plan_document(planned) if planned else None,
            "run": sample_document(sample) | {"cost": {"value": cost, "unit": settings.cluster.unit}},
            "met": missed is None,
        }
        emit_json("run", document)
        return
    expected: Sequence[tuple[str, str]] = (("", ""),) * 4
    if planned:
        forecast = planned.forecast
        expected = (
            ("seconds", spread(forecast.seconds)),
            ("seconds per epoch", spread(forecast.epoch_seconds)),
            (settings.job.metric, spread(forecast.accuracy, 4)),
            (f"cost ({settings.cluster.unit})", spread(forecast.cost)),
        )
    measured = (
        ("seconds", number(sample.seconds, 3)),
        ("seconds per epoch", number(sample.epoch_seconds, 3) if sample.epoch_seconds is not None else "unknown"),
        (settings.job.metric, number(sample.accuracy) if sample.accuracy is not None else "unknown"),
        (f"cost ({settings.cluster.unit})", number(cost, 3)),
    )
    rows = [(what, before, value) for (what, value), (_, before) in zip(measured, expected, strict=True)]
    table(("", "forecast (10th..90th percentile)", "measured"), rows)
    outcome = "goal met" if missed is None else missed
    say(f"{sample.config}: {sample.epochs:g} epochs, {outcome}; logs in {sample.folder}")
