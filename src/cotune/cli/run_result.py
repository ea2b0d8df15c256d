"""What came of a run: forecast beside measured, and what was missed of the goal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any

from cotune import progress
from cotune.checkpoints import trained
from cotune.cli.output import emit_json, end_with, say, table
from cotune.documents import (
    config_document,
    goal_document,
    plan_document,
    price_document,
    sample_document,
    scaled,
    spread,
)
from cotune.errors import Missed
from cotune.jobfile.settings import Settings
from cotune.project.ended_runs import EndedRun
from cotune.project.run import ProjectRun
from cotune.run.supervise import RunEvent
from cotune.types import Config, Forecast, Goal, Job, Quantity, Sample
from cotune.units import counted, number


def show_result(settings: Settings, goal: Goal, run: EndedRun, account: dict[str, Any], *, json: bool) -> None:
    """Print forecast beside measured, in JSON with the account of a replay; raise `Missed` where a goal was not met."""
    if json:
        emit_json("run", run_document(settings, goal, run) | account)
    else:
        _print(settings, run)
    end_with(Missed(run.missed) if run.missed else None, told=json)


def run_document(settings: Settings, goal: Goal, run: EndedRun) -> dict[str, Any]:
    """Return what came of a run, beside what was asked and planned."""
    unit = settings.cluster.unit
    return {
        "job": settings.job.name,
        "goal": goal_document(settings.job, goal, unit),
        "plan": plan_document(run.plan, settings.job) if run.plan else None,
        "run": sample_document(run.last, settings.job)
        | {"seconds": run.seconds, "cost": {"value": run.cost, "unit": unit}},
        "prices": price_document(settings.cluster),
        "starts": len(run.starts),
        "continued": _continued_document(settings.job, run.probe) if run.probe else None,
        "outcome": run.outcome,
        "met": run.missed is None,
        "missed": run.missed,
    } | _measured_document(run)


def _measured_document(run: EndedRun) -> dict[str, Any]:
    """Return what a run without a profile has measured within its own account; nothing for any other."""
    if not run.measured:
        return {}
    spent = sum(probe.device_seconds for probe in run.measured)
    return {"measured": {"probes": len(run.measured), "device_seconds": spent}}


def account_document(run: ProjectRun, ended: EndedRun, events: Sequence[RunEvent]) -> dict[str, Any]:
    """Return what a replayed run without a profile did in its one account: probes, forecasts and moves."""
    assert run.itself is not None
    measured = sum((probe.device_seconds for probe in ended.measured), 0.0)
    return {
        "probes": [sample_document(probe) for probe in ended.measured],
        "forecasts": list(_forecast_documents(run, ended, events)),
        "outcome": {
            "met": ended.missed is None,
            "seconds": ended.seconds,
            "device_seconds": measured + sum(start.device_seconds for start in ended.starts),
            "measuring_device_seconds": measured,
            "moves": list(_move_documents(ended, events)),
        },
    }


def _forecast_documents(run: ProjectRun, ended: EndedRun, events: Sequence[RunEvent]) -> Iterator[dict[str, Any]]:
    """Yield P(met) at the beginning, and after each evaluation but the last."""
    assert run.itself is not None
    begun = {start.id: seconds for start, seconds in _starts(ended)}
    first = next(iter(begun.values()))
    yield _forecast_document(first, 0.0, None, run.itself.odds, run.config)
    for _, group in groupby(events, lambda event: (event.sample.id, len(event.sample.curve))):
        event = next(group)
        sample = event.sample
        if sample.curve and event.odds is not None:
            seconds = begun[sample.id] + sample.seconds
            yield _forecast_document(seconds, sample.epochs, sample.accuracy, event.odds, sample.config)


def _forecast_document(
    seconds: float, epoch: float, accuracy: float | None, odds: float | None, config: Config
) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "epoch": epoch,
        "accuracy": accuracy,
        "probability": odds,
        "config": config_document(config),
    }


def _move_documents(ended: EndedRun, events: Sequence[RunEvent]) -> Iterator[dict[str, Any]]:
    """Yield where a run has changed its config, and what that took."""
    notes = {event.sample.id: event.note for event in reversed(events)}  # of the beginning of each start
    for (before, _), (start, seconds) in pairwise(_starts(ended)):
        taken = start.terms.engine or 0.0
        trained = (start.seconds - taken) / start.epoch_seconds if start.epoch_seconds else 0.0
        yield {
            "seconds": seconds,
            "epoch": before.epochs,
            "lands": start.epochs - trained,
            "from": config_document(before.config),
            "to": config_document(start.config),
            "move_seconds": taken,
            "reason": notes.get(start.id),
        }


def _starts(ended: EndedRun) -> list[tuple[Sample, float]]:
    """Return the starts of a run, and after how many seconds of its account each began."""
    spent = accumulate(
        (start.seconds for start in ended.starts), initial=sum((one.seconds for one in ended.measured), 0.0)
    )
    return list(zip(ended.starts, spent, strict=False))


def _continued_document(job: Job, probe: Sample) -> dict[str, Any]:
    """Return the probe that a run went on from: only the rest was the run's own."""
    return {"sample": probe.id, "epochs": trained(probe) / job.counting.parts, "device_seconds": probe.device_seconds}


def _print(settings: Settings, run: EndedRun) -> None:
    last = run.last
    names = ("", "forecast (10th..90th percentile)", "measured")
    rows = _compared(settings, run)
    if run.plan is None:
        table((names[0], names[2]), [(name, real) for name, _, real in rows])
    else:
        table(names, rows)
    several = f" in {len(run.starts)} starts" if len(run.starts) > 1 else ""
    if run.probe and run.probe.curve:
        before = progress.amount(settings.job, last.config, run.probe.curve[-1].epoch)
        several += f" ({before:g} of them by probe {run.probe.id})"
    if run.measured:
        several += f" (and {counted(len(run.measured), 'probe')})"
    done = progress.words(settings.job, last.config, last.epochs)
    ended = "" if run.missed else f", {run.words}"  # what was missed is the error that it ends by
    say(f"{last.config}: {done}{several}{ended}; logs in {last.folder}")
    if last.warning:
        say(f"note      {last.warning}")


def _compared(settings: Settings, run: EndedRun) -> list[tuple[str, str, str]]:
    forecast = _forecast(run)
    said = _foreseen(settings.job, forecast)
    job, each = settings.job, progress.amount(settings.job, run.last.config, 1.0)
    names = ("seconds", f"seconds per {progress.each(job)}", job.metric, f"cost ({settings.cluster.unit})")
    paced = None if run.last.epoch_seconds is None else run.last.epoch_seconds / each
    measured = (run.seconds, paced, run.last.accuracy, run.cost)
    digits = (3, 3, 4, 3)
    return [
        (name, spread(quantity, places) if forecast else "", "unknown" if real is None else number(real, places))
        for name, quantity, real, places in zip(names, said, measured, digits, strict=True)
    ]


def _foreseen(job: Job, forecast: Forecast | None) -> tuple[Quantity | None, ...]:
    """Return what was forecast, the pace by what the job counts."""
    if forecast is None:
        return (None,) * 4
    paced = scaled(forecast.epoch_seconds, 1 / progress.amount(job, forecast.config, 1.0))
    return forecast.seconds, paced, forecast.accuracy, forecast.cost


def _forecast(run: EndedRun) -> Forecast | None:
    """Return what was forecast of the run's own part: where a probe trained the first part, of the rest."""
    if run.plan is None:
        return None
    return run.plan.rest if run.probe and run.plan.rest else run.plan.forecast
