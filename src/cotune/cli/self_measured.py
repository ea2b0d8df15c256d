"""A replayed run without a profile: it measures itself, within one account, and shows what that came to.

    outcome.{met, seconds, device_seconds, measuring_device_seconds, moves[]}

`device_seconds` holds everything that was spent: probes, epochs and moves. `forecasts` is P(met) after each evaluation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cotune.cli.flags import ReplayFlags
from cotune.cli.output import emit_json, end_with, note, say, table
from cotune.cli.run_result import run_document
from cotune.documents import config_document, goal_words, sample_document
from cotune.errors import Missed
from cotune.identity import new_id, timestamp
from cotune.jobfile.settings import Settings
from cotune.plan.rates import cost_of
from cotune.probe.replayed import SelfMeasuredStep, self_measured
from cotune.probe.self_measuring import SelfMeasuring
from cotune.project.ended_runs import EndedRun, ended_run
from cotune.project.project import Project
from cotune.project.run import RunOptions
from cotune.run.replayed_training import ReplayedTraining
from cotune.types import Sample
from cotune.units import counted, duration, number


def measures_itself(project: Project, replay: ReplayFlags) -> bool:
    """Return whether a replayed run has neither a plan nor samples, and a target to find a config for."""
    job = project.settings.job
    limited = replay.all_samples or replay.max_device_seconds is not None
    untouched = not project.store.samples(job) and not project.store.latest_plan(job)
    return project.settings.goal.target is not None and untouched and not limited


def run_measuring_itself(project: Project, options: RunOptions, *, json: bool) -> None:
    """Measure and train within one account; show what came of it. Exit 6 when it misses."""
    assert project.replayed is not None
    settings, recording, seed = project.settings, project.replayed.recording, options.seed or 0
    job, goal, cluster = settings.job, settings.goal, settings.cluster
    brain = SelfMeasuring(job, goal, settings.space, cluster, seed, restart=recording.restart_seconds)
    if options.fixed:
        brain = replace(brain, constants=brain.constants.staying)
    note(f"no profile: measuring on the way; goal: {goal_words(job, goal, cluster.unit)}")
    training = ReplayedTraining(recording, goal, seed)
    forecasts = []
    for step in self_measured(brain, training):
        forecasts.append(_forecast(training, step))
        _tell(training, step, goal.confidence)
    starts = _stamped(training)
    for sample in starts:
        project.store.save(job, sample)
    run = ended_run(job, cluster, [start for start in starts if start.purpose == "run"], None, goal)
    run = replace(run, seconds=training.seconds, cost=cost_of(starts, cluster), missed=_missed(training, run))
    if json:
        emit_json("run", _document(settings, training, run, forecasts))
    else:
        _print(settings, training, run)
    end_with(Missed(run.missed) if run.missed else None, told=json)


def _missed(training: ReplayedTraining, run: EndedRun) -> str | None:
    if training.met:
        return None
    deadline = training.goal.deadline
    late = f"; the deadline of {duration(deadline)} is over" if deadline is not None else ""
    return (run.missed or "missed") + late


def _stamped(training: ReplayedTraining) -> list[Sample]:
    """Return all starts under names of their own, as a store keeps them."""
    names = {sample.id: new_id() for sample in training.samples}
    return [
        replace(
            sample, id=names[sample.id], started=timestamp(), seed=training.seed, goal=training.goal,
            resumed_from=names.get(sample.resumed_from or ""),
        )
        for sample in training.samples
    ]  # fmt: skip


def _forecast(training: ReplayedTraining, step: SelfMeasuredStep) -> dict[str, Any]:
    last = training.starts[-1]
    return {
        "seconds": training.seconds,
        "epoch": training.epoch,
        "accuracy": last.accuracy,
        "probability": step.choice.odds,
        "config": config_document(last.config),
    }


def _tell(training: ReplayedTraining, step: SelfMeasuredStep, confidence: float) -> None:
    """Say what was decided, and what would help where the odds are less than was asked."""
    choice, last = step.choice, training.starts[-1]
    if step.kind == "begin":
        note(f"{counted(len(training.probes), 'probe')}, then {choice.config}: {choice.reason}")
    elif step.kind == "move":
        note(f"epoch {training.moves[-1].epoch:.3g}: going on with {choice.config}: {choice.reason}")
    else:
        shown = "" if last.accuracy is None else f", {training.recording.job.metric} {last.accuracy:.4g}"
        note(f"epoch {training.epoch:.3g}{shown}: {choice.reason}")
    if choice.odds < confidence:
        note(f"P(met) {choice.odds:.2f} is below the {confidence:g} asked: {choice.remedy}")


def _document(
    settings: Settings, training: ReplayedTraining, run: EndedRun, forecasts: list[dict[str, Any]]
) -> dict[str, Any]:
    unit = settings.cluster.unit
    moves = [
        {
            "seconds": move.at_seconds,
            "epoch": move.epoch,
            "lands": move.lands,
            "from": config_document(move.source),
            "to": config_document(move.target),
            "move_seconds": move.seconds,
            "reason": move.reason,
        }
        for move in training.moves
    ]
    return run_document(settings, settings.goal, run) | {
        "run": sample_document(run.last) | {"seconds": training.seconds, "cost": {"value": run.cost, "unit": unit}},
        "probes": [sample_document(probe) for probe in training.probes],
        "forecasts": forecasts,
        "outcome": {
            "met": run.missed is None,
            "seconds": training.seconds,
            "device_seconds": training.device_seconds,
            "measuring_device_seconds": training.measuring_device_seconds,
            "moves": moves,
        },
    }


def _print(settings: Settings, training: ReplayedTraining, run: EndedRun) -> None:
    unit = settings.cluster.unit
    rows = [
        ("seconds", number(training.seconds)),
        ("device-seconds", number(training.device_seconds)),
        ("of which measuring", number(training.measuring_device_seconds)),
        (f"cost ({unit})", number(run.cost)),
        ("moves", str(len(training.moves))),
    ]
    table(("", "replayed"), rows)
    say(f"{run.last.config}: {counted(run.last.epochs, 'epoch')}{'' if run.missed else ', goal met'}")
