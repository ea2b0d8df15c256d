"""`cotune predict`: seconds per epoch and accuracy of any config, with intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from cotune import documents, progress
from cotune.cli import options
from cotune.cli.flags import JobFlags, PredictorFlags, ReplayFlags, SpaceFlags, records_as_flags, request
from cotune.cli.help import SPACE, flag
from cotune.cli.output import emit_json, say, table
from cotune.errors import NotFound
from cotune.jobfile.settings import Settings
from cotune.predict.evidence import Evidence, Predictors
from cotune.predict.input_law import InputLaw
from cotune.predict.samples import timed
from cotune.project.planner import Planner
from cotune.project.project import Project
from cotune.types import Forecast, Goal, Job

SHOWN = 40  # configs of a large space, evenly chosen


@records_as_flags
def predict(
    *,
    everything: Annotated[bool, flag(SPACE, "--all", help="The whole space, not a selection.")] = False,
    space: SpaceFlags,
    by: PredictorFlags,
    replay: ReplayFlags,
    job: JobFlags,
    no_history: options.NoHistory = False,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Predict seconds per epoch and accuracy of any config, with intervals.

    cotune predict
    cotune predict -w 1..16 -b 32,64 --all
    """
    predictors, searched = by.with_seed(seed), request(space=space)
    if replay.recording:
        # Seconds per epoch alone: without a target no learning curve is worth its cost.
        asked = {"epochs": None if replay.all_samples else 1, **searched}
        with job.replayed(replay.recording, asked) as project:
            known = replay.evidence(project, seed)
            planner = _planner(project, known, predictors)
    else:
        with job.project(job.load(searched)) as project:
            project.warn(project.warnings(()))
            known = project.evidence(history=not no_history)
            planner = _planner(project, known, predictors)
    _print(project.settings, planner, known, everything=everything, json=json)


def _planner(project: Project, known: Evidence, predictors: Predictors) -> Planner:
    """Return what forecasts every config, with accuracy and whatever the goal asks for."""
    goal = replace(project.settings.goal, target=None, prefer="cheap")
    return project.with_goal(goal).planner(known, predictors, accuracy=True)


def _print(settings: Settings, planner: Planner, known: Evidence, *, everything: bool, json: bool) -> None:
    law = InputLaw.of(settings.job, known.samples)
    assessed, notes = planner.assess(), planner.outlook.notes
    rows = np.flatnonzero(np.isfinite(assessed.seconds))
    if not len(rows):
        raise _nothing(planner, known)
    shown = rows if everything or len(rows) <= SHOWN else rows[np.linspace(0, len(rows) - 1, SHOWN).astype(int)]
    forecasts = [assessed.forecast(int(row)) for row in shown]
    waits = [None] * len(forecasts) if law is None else law.epoch(settings.job, [one.config for one in forecasts])
    if json:
        rows_shown = [
            _document(settings.job, forecast, planner.goal.max_epochs)
            | ({} if wait is None else {"input_seconds": float(wait)})
            for forecast, wait in zip(forecasts, waits, strict=True)
        ]
        emit_json("predict", {"job": settings.job.name, "rows": rows_shown, "notes": list(notes)})
        return
    _show(settings, forecasts, notes, left_out=len(rows) - len(forecasts))
    if law is not None and law.per_example:
        shares = [float(wait) / one.epoch_seconds.mid for one, wait in zip(forecasts, waits, strict=True)]
        say(f"of an epoch {min(shares):.0%} to {min(1.0, max(shares)):.0%} is waiting for input (loading {law.how})")


def _nothing(planner: Planner, known: Evidence) -> NotFound:
    """Return that nothing of what was asked for can run, as far as is known, with the batches that did."""
    batches = sorted({sample.config.batch_size for sample in timed(known.all_samples)})
    why = "".join(f" ({line})" for line in planner.outlook.notes if "left out" in line)
    asked = planner.outlook.configs[0]
    others = f" and {planner.outlook.configs.length - 1} more" if planner.outlook.configs.length > 1 else ""
    ran = ", ".join(map(str, batches))
    return NotFound(f"no forecast of {asked}{others}, which cannot run as far as is known{why}; batches {ran} did")


def _document(job: Job, forecast: Forecast, epochs: int) -> dict[str, Any]:
    parts = job.counting.parts
    document = documents.config_document(forecast.config) | {
        "epoch_seconds": documents.quantity_document(
            documents.scaled(forecast.epoch_seconds, parts) or forecast.epoch_seconds
        ),
        **documents.progress_document(job, forecast.config, most=epochs),
        "source": forecast.epoch_seconds.source,
    }
    if forecast.best is None:
        return document
    return document | {
        "accuracy": documents.quantity_document(forecast.best),
        "epochs": epochs if parts == 1 else epochs / parts,
    }


def _show(settings: Settings, forecasts: list[Forecast], notes: tuple[str, ...], *, left_out: int) -> None:
    job, columns = settings.job, documents.config_columns([forecast.config for forecast in forecasts])
    most = documents.goal_words(job, Goal(max_epochs=settings.goal.max_epochs), "")
    rows = []
    for forecast in forecasts:
        paced = documents.scaled(forecast.epoch_seconds, 1 / progress.amount(job, forecast.config, 1.0))
        seconds, accuracy = documents.spread(paced), documents.spread(forecast.best, 4)
        rows.append(
            (*documents.config_cells(forecast.config, columns), seconds, forecast.epoch_seconds.source, accuracy)
        )
    head = (*documents.head(columns), f"seconds per {progress.each(job)}", "known from", f"best {job.metric} in {most}")
    table(head, rows, title=f"{job.name}: mid (10th..90th percentile)")
    for line in notes:
        say(line)
    if left_out:
        say(f"{left_out} more configs; --all shows them")
