"""`cotune report`: the decision and its grounds, in the terminal and as one page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotune.cli.options import (
    AccuracyPredictor,
    Axis,
    BatchSize,
    Command,
    Confidence,
    Deadline,
    Epochs,
    File,
    Json,
    MaxCost,
    MaxEpochs,
    Name,
    NoHistory,
    Predictor,
    Prefer,
    Seed,
    StoreUrl,
    Target,
    Workers,
)
from cotune.cli.recording import AllSamples, Budget, MaxSamples, RecordingFolder

if TYPE_CHECKING:
    from cotune.cli.forecasting import Grounds
    from cotune.cli.recording import ReplayedJob
    from cotune.forecast import Outlook
    from cotune.jobfile.settings import Settings
    from cotune.reports import Findings
    from cotune.store import Store
    from cotune.types import Plan, Sample


def report(
    command: Command = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write one self-contained HTML page here.")
    ] = None,
    plots: Annotated[
        bool | None, typer.Option("--plots/--no-plots", help="Small plots in the terminal (default: if there is one).")
    ] = None,
    target: Target = None,
    deadline: Deadline = None,
    max_cost: MaxCost = None,
    prefer: Prefer = None,
    confidence: Confidence = None,
    epochs: Epochs = None,
    max_epochs: MaxEpochs = None,
    workers: Workers = None,
    batch_size: BatchSize = None,
    axis: Axis = None,
    predictor: Predictor = "auto",
    accuracy: AccuracyPredictor = "auto",
    recording: RecordingFolder = None,
    max_samples: MaxSamples = 16,
    budget: Budget = None,
    all_samples: AllSamples = False,
    no_history: NoHistory = False,
    name: Name = None,
    file: File = None,
    store: StoreUrl = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show a plan, its grounds and what came of it. -o writes a page to keep or to send."""
    from cotune.cli.forecasting import Grounds, recalled
    from cotune.cli.options import as_last_planned, goal_overrides, load_settings, open_store, search_overrides
    from cotune.cli.output import emit_json, note
    from cotune.cli.recording import Reading, replay
    from cotune.jobfile.metric import as_measured
    from cotune.reports.document import document

    axes = search_overrides(workers, batch_size, axis)
    asked = goal_overrides(target, deadline, max_cost, prefer=prefer, confidence=confidence)
    asked |= {"epochs": epochs, "max_epochs": max_epochs}
    if recording:
        played = replay(recording, asked | {"search": axes}, Reading(max_samples, budget, all_samples), file)
        found = _replayed(played, store, Grounds(seed, None, predictor, accuracy))
    else:
        settings = load_settings(file, {"run": command, "name": name, "search": axes} | asked)
        with open_store(store, reading=True) as kept:
            settings = as_measured(settings, kept)
            if all(value is None for value in asked.values()):
                settings = _with_planned_goal(as_last_planned(settings, kept), kept)
            history = recalled(settings, kept, wanted=not no_history)
            found = _stored(settings, kept, Grounds(seed, history, predictor, accuracy))
    if output is not None:
        _write(output, found)
    if json:
        emit_json("report", document(found) | {"page": None if output is None else str(output)})
    else:
        _show(found, plots=sys.stdout.isatty() if plots is None else plots)
    if output is not None:
        note(f"the page is {output}")
    if found.refusal is not None and json:
        raise typer.Exit(found.refusal.exit_code)
    if found.refusal is not None:
        raise found.refusal


def _with_planned_goal(settings: Settings, kept: Store) -> Settings:
    """Return the settings with the goal of the latest plan, as `cotune run` would take it."""
    from dataclasses import replace

    from cotune.cli.options import tell_other_goal

    tell_other_goal(settings, kept)
    latest = kept.latest_plan(settings.job)
    return replace(settings, goal=latest.goal) if latest else settings


def _stored(settings: Settings, kept: Store, on: Grounds) -> Findings:
    """Return the findings of a job of the store."""
    from cotune.cli.forecasting import known_samples

    samples = known_samples(settings, kept, on.history)
    plans = [(made.created, made.plan) for made in kept.plans(settings.job)]
    return _found(settings, _outlook(settings, samples, on), samples, plans)


def _replayed(played: ReplayedJob, store: str | None, on: Grounds) -> Findings:
    """Return the findings on a recording, with a replayed run of the plan to compare with."""
    settings, samples = played.settings, played.kept_samples(store, on.seed)
    outlook = _outlook(settings, samples, on)
    found = _found(settings, outlook, samples, [])
    if found.plan is None:
        return found
    run = _run_of(played, found.plan, on.seed)
    return _found(settings, outlook, [*samples, run], [("", found.plan)])


def _run_of(played: ReplayedJob, plan: Plan, seed: int) -> Sample:
    from cotune.run.attempt import Until, attempt
    from cotune.run.engines.recorded import Recorded
    from cotune.run.launch import Launch
    from cotune.stamps import new_id, timestamp
    from cotune.types import RECORDED, Sample

    settings = played.settings
    target = None if plan.goal.prefer == "accurate" else plan.goal.target
    id, epochs = new_id(), plan.goal.epochs or plan.epochs
    launch = Launch(id, settings.job, plan.config, epochs, Path(settings.job.name), target, seed + 1)
    start = Sample(plan.config, purpose="run", id=id, started=timestamp(), engine=RECORDED)
    engine = Recorded(played.folder, None, seed + 1, recording=played.recording)
    *_, ended = attempt(engine, launch, Until(epochs=epochs), start)
    return ended


def _outlook(settings: Settings, samples: list[Sample], on: Grounds) -> Outlook:
    from cotune.cli.forecasting import make_forecaster, require_curves

    require_curves(settings, samples, on.history)
    return make_forecaster(settings, samples, on)(settings.space.configs(), settings.goal.max_epochs)


def _found(settings: Settings, outlook: Outlook, samples: list[Sample], plans: list[tuple[str, Plan]]) -> Findings:
    from cotune.reports import find

    return find(
        settings.job, settings.goal, settings.space, settings.cluster, outlook=outlook, samples=samples, plans=plans
    )


def _write(output: Path, found: Findings) -> None:
    from cotune.cli.output import writing
    from cotune.reports.page import page

    text = page(found)
    with writing(output):
        output.write_text(text, encoding="utf-8")


def _show(found: Findings, *, plots: bool) -> None:
    from cotune.cli.output import coloured, say, show, table
    from cotune.documents import decision_table, goal_words, price_words, time_spread
    from cotune.reports import sketches
    from cotune.units import counted, duration, number

    if found.plan is not None:
        table(*decision_table(found.job.metric, found.plan.forecast, found.plan.rivals))
        say()
        say(f"goal      {goal_words(found.job, found.goal, found.unit)}")
        say(f"plan      {found.plan.config}, at most {counted(found.plan.epochs, 'epoch')}")
        say(f"reason    {found.plan.reason}")
    elif found.nearest:
        title = "the nearest that can be had"
        table(*decision_table(found.job.metric, found.nearest[0], found.nearest[1:]), title=title)
    if found.scaling is not None:
        say(f"scaling   {found.scaling.words}")
    for run in found.runs[:3]:
        said = f", {time_spread(run.plan.forecast.seconds)} forecast" if run.plan else ""
        say(f"run       {run.last.config}: {duration(run.seconds)}{said}; {run.words}")
    probes = [sample for sample in found.samples if sample.purpose == "probe"]
    spent = f"{number(found.cost(probes))} {found.unit}"
    configs = len({probe.config for probe in probes})
    say(f"measured  {counted(len(probes), 'probe')} of {counted(configs, 'config')} for {spent}")
    for line in found.notes:
        say(f"note      {line}")
    for line in price_words(found.cluster):
        say(f"price     {line}")
    if plots:
        for sketch in (sketches.cost_against_time(found), sketches.curves(found, coloured=coloured())):
            if sketch:
                say()
                show(sketch)  # it has colours of its own, which take no room
