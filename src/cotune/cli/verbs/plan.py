"""`cotune plan`: the cheapest config that reaches the target in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotune.cli.options import (
    AccuracyPredictor,
    Axis,
    BatchSize,
    Command,
    Confidence,
    Deadline,
    Epochs,
    Examples,
    File,
    Json,
    MaxCost,
    MaxEpochs,
    Name,
    NoHistory,
    Pattern,
    Predictor,
    Prefer,
    Seed,
    StoreUrl,
    Target,
    Workers,
)
from cotune.cli.recording import AllSamples, Budget, MaxSamples, RecordingFolder

_WORTH_MEASURING = 0.3  # chance below which more samples seldom lift a forecast to the confidence asked for

if TYPE_CHECKING:
    from cotune.cli.forecasting import Grounds
    from cotune.jobfile.settings import Settings
    from cotune.predict.history import History
    from cotune.store import Store
    from cotune.types import Forecast, Plan, Sample


def plan(
    command: Command = None,
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
    search: Annotated[str, typer.Option("--search", help="How to search: grid (exact), tabu, ...")] = "grid",
    predictor: Predictor = "auto",
    accuracy: AccuracyPredictor = "auto",
    recording: RecordingFolder = None,
    max_samples: MaxSamples = 16,
    budget: Budget = None,
    all_samples: AllSamples = False,
    no_history: NoHistory = False,
    examples: Examples = None,
    pattern: Pattern = None,
    no_measure: Annotated[
        bool, typer.Option("--no-measure", help="Refuse instead of measuring first what is missing.")
    ] = False,
    name: Name = None,
    file: File = None,
    store: StoreUrl = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Choose workers and batch size for a goal at the least cost. The goal: a target, by a deadline."""
    import time

    from cotune.cli.doubts import doubt_batches, doubt_target
    from cotune.cli.forecasting import Grounds, recalled, with_model
    from cotune.cli.options import check_predictors, goal_overrides, load_settings, open_store, search_overrides
    from cotune.cli.output import emit_json
    from cotune.cli.recording import Reading, replay
    from cotune.jobfile.metric import as_measured
    from cotune.space import Configs

    check_predictors(predictor, accuracy)
    axes = search_overrides(workers, batch_size, axis)
    asked = goal_overrides(target, deadline, max_cost, prefer=prefer, confidence=confidence)
    asked |= {"epochs": epochs, "max_epochs": max_epochs}
    history = None
    if recording:
        played = replay(recording, asked | {"search": axes}, Reading(max_samples, budget, all_samples), file)
        settings = played.settings
        samples = played.kept_samples(store, seed)
    else:
        told = {"run": command, "name": name, "examples": examples, "pattern": pattern, "search": axes}
        settings = load_settings(file, told | asked)
        with open_store(store) as kept:
            settings = with_model(as_measured(settings, kept), kept)
            history = recalled(settings, kept, wanted=not no_history)
            samples = _enough_samples(settings, kept, history, max_samples, seed, may_measure=not no_measure)
    doubt_target(settings, samples)
    begun = time.perf_counter()
    chosen = planned(settings, samples, Grounds(seed, history, predictor, accuracy), search)
    took = time.perf_counter() - begun
    doubt_batches(settings.job, Configs.of([chosen.config]))
    if store or not recording:
        with open_store(store) as kept:
            kept.save_plan(settings.job, chosen, settings.space, settings.cluster)
    if json:
        emit_json("plan", _document(settings, chosen, samples, took))
        return
    _show(settings, chosen, took)
    _show_rest(chosen, samples)


def _document(settings: Settings, chosen: Plan, samples: list[Sample], took: float) -> dict[str, Any]:
    from cotune.checkpoints import reused_device_seconds
    from cotune.documents import forecast_document, goal_document, plan_document, price_document, profile_document

    return {
        "job": settings.job.name,
        "goal": goal_document(settings.job, settings.goal, settings.cluster.unit),
        "plan": plan_document(chosen),
        "rivals": [forecast_document(rival) for rival in chosen.rivals],
        "profile": profile_document(samples, reused_device_seconds(chosen.continues, samples)),
        "prices": price_document(settings.cluster),
        "searched": {"configs": chosen.searched, "seconds": took},
    }


def _enough_samples(
    settings: Settings, kept: Store, history: History | None, max_samples: int, seed: int, *, may_measure: bool
) -> list[Sample]:
    """Return the samples of a job; where they are missing, measure first what decides for the goal."""
    from cotune.cli.forecasting import known_samples, require_curves
    from cotune.cli.measuring import measure, nothing_learnt
    from cotune.cli.output import note
    from cotune.errors import NotFound
    from cotune.probe.measure import Limits
    from cotune.units import duration

    try:
        samples = known_samples(settings, kept, history)
        require_curves(settings, samples, history)
    except NotFound as missing:
        asked = settings.goal.target is not None or settings.goal.deadline is not None
        if not (may_measure and asked and settings.job.command):
            raise
        limits = Limits(settings.profile_seconds, max_samples, settings.timeout)
        note(f"{missing}; doing so now, for at most {duration(limits.seconds)} (--no-measure refuses instead)")
        known = kept.samples(settings.job)
        new = measure(settings, kept, known, limits, for_goal=True, history=history, seed=seed)
        if not any(sample.epoch_seconds is not None for sample in (*known, *new)):
            raise nothing_learnt(settings, known, new, limits) from None
        return known_samples(settings, kept, history)
    return samples


def planned(settings: Settings, samples: list[Sample], on: Grounds, search: str = "grid") -> Plan:
    """Return the plan that the samples allow, or raise `Infeasible` with the nearest ones."""
    from dataclasses import replace

    from cotune import registry
    from cotune.checkpoints import Kept
    from cotune.cli.forecasting import make_forecaster, require_curves
    from cotune.documents import forecast_document
    from cotune.errors import Infeasible
    from cotune.plan.choose import choose
    from cotune.types import RECORDED, Forecast

    searcher = registry.create("search", search)
    require_curves(settings, samples, on.history)
    forecast = make_forecaster(settings, samples, on)
    kept = Kept.among(samples)
    try:
        plan = choose(
            settings.job,
            settings.goal,
            settings.space,
            settings.cluster,
            forecast=forecast,
            search=searcher,
            trained=lambda configs: kept.epochs(settings.job, settings.goal, configs),
            go_on=settings.engine != RECORDED,  # a recording leaves no checkpoint
            seed=on.seed,
        )
    except Infeasible as error:
        near = [forecast for forecast in error.nearest if isinstance(forecast, Forecast)]
        nearest = tuple(forecast_document(forecast) for forecast in near)
        words = f"{error}{more_measuring(settings, near)}"
        raise Infeasible(words, error.constraint, nearest, error.by, error.unit) from None
    before = kept.of(plan.config, settings.goal)
    return replace(plan, continues=before.id if before else None)


def more_measuring(settings: Settings, nearest: list[Forecast]) -> str:
    """Return the advice to measure more, where a config that was not itself measured may well meet the goal."""
    from cotune.cli.forecasting import goal_flags
    from cotune.types import RECORDED

    best = max(nearest, key=lambda forecast: forecast.probability, default=None)
    if best is None or not settings.job.command or settings.engine == RECORDED:
        return ""
    known = [quantity.source for quantity in (best.epoch_seconds, best.accuracy) if quantity is not None]
    if best.probability < _WORTH_MEASURING or set(known) == {"measured"}:
        return ""
    chance = f"{best.config} meets it with probability {best.probability:.3g} so far"
    return f". More measuring may help, as {chance}: cotune profile --for-goal{goal_flags(settings)}"


def _probe(chosen: Plan, samples: list[Sample]) -> Sample | None:
    """Return the probe that a run of the plan goes on from."""
    return next((sample for sample in samples if chosen.continues and sample.id == chosen.continues), None)


def _show(settings: Settings, chosen: Plan, took: float) -> None:
    from cotune.cli.output import say, table
    from cotune.documents import decision_table, price_words
    from cotune.types import RECORDED
    from cotune.units import counted, duration, number

    forecast, goal = chosen.forecast, chosen.goal
    table(*decision_table(settings.job.metric, forecast, chosen.rivals))
    say()
    say(f"plan      {chosen.config}, at most {counted(chosen.epochs, 'epoch')}")
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
    for line in price_words(settings.cluster):
        say(f"price     {line}")
    again = " with the same flags" if settings.engine == RECORDED else ""  # a plan of a recording is not kept
    say(f"searched  {counted(chosen.searched, 'config')}, in {took:.2f} s with fitting; next: cotune run{again}")


def _show_rest(chosen: Plan, samples: list[Sample]) -> None:
    """Say what is left for a run that goes on from a probe, or why it has to begin anew."""
    from cotune.checkpoints import CHECKPOINT, LEAST_EPOCHS, trained
    from cotune.cli.output import say
    from cotune.units import counted, duration, number

    probe, rest = _probe(chosen, samples), chosen.rest
    if probe is not None and rest is not None:
        done = counted(trained(probe), "epoch")
        if rest.seconds.mid == 0:
            how = "has trained" if chosen.goal.target is None else "met the target after"
            say(f"continues probe {probe.id}, which {how} {done}: nothing is left to train")
            return
        left = f"{duration(rest.seconds.mid)} and {number(rest.cost.mid)} {rest.cost.unit}"
        say(
            f"continues probe {probe.id}, which has trained {done}: {left} are left, probability {rest.probability:.2f}"
        )
    elif any(sample.purpose == "probe" and trained(sample) >= LEAST_EPOCHS for sample in samples):
        same = chosen.config.global_batch
        if any(trained(sample) >= LEAST_EPOCHS and sample.config.global_batch == same for sample in samples):
            say(f"note      no {CHECKPOINT} of the probes at global batch {same} is left, so a run begins anew")
