"""`cotune predict`: seconds per epoch and accuracy of any config, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotune.cli.options import (
    AccuracyPredictor,
    Axis,
    BatchSize,
    Command,
    File,
    Json,
    Name,
    NoHistory,
    Predictor,
    Seed,
    StoreUrl,
    Workers,
)
from cotune.cli.recording import AllSamples, Budget, MaxSamples, RecordingFolder

if TYPE_CHECKING:
    from cotune.forecast import Outlook
    from cotune.jobfile.settings import Settings
    from cotune.predict.history import History
    from cotune.types import Forecast, Sample

SHOWN = 40  # configs of a large space, evenly chosen


def predict(
    command: Command = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole space, not a selection.")] = False,
    workers: Workers = None,
    batch_size: BatchSize = None,
    axis: Axis = None,
    predictor: Predictor = "auto",
    accuracy: AccuracyPredictor = "auto",
    recording: RecordingFolder = None,
    max_samples: MaxSamples = 16,
    budget: Budget = None,
    all_samples: AllSamples = False,
    name: Name = None,
    file: File = None,
    store: StoreUrl = None,
    no_history: NoHistory = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Predict seconds per epoch and accuracy, with intervals. Of configs measured or not."""
    from cotune.cli.forecasting import Grounds, full_forecaster
    from cotune.cli.options import check_predictors, load_settings, search_overrides
    from cotune.cli.recording import Reading, replay

    check_predictors(predictor, accuracy)
    searched = search_overrides(workers, batch_size, axis)
    if recording:
        # Seconds per epoch alone: without a target no learning curve is worth its cost.
        asked = {"epochs": None if all_samples else 1, "search": searched}
        played = replay(recording, asked, Reading(max_samples, budget, all_samples), file)
        settings, samples, history = played.settings, played.kept_samples(store, seed), None
    else:
        settings = load_settings(file, {"run": command, "name": name, "search": searched})
        settings, samples, history = _known(settings, store, with_history=not no_history)
    forecast = full_forecaster(settings, samples, Grounds(seed, history, predictor, accuracy))
    outlook = forecast(settings.space.configs(), settings.goal.max_epochs)
    _print(settings, outlook, everything=everything, json=json)


def _known(
    settings: Settings, store: str | None, *, with_history: bool
) -> tuple[Settings, list[Sample], History | None]:
    """Return the settings with the metric that was measured, a job's samples, and what jobs like it showed before."""
    from cotune.cli.forecasting import known_samples, recalled
    from cotune.cli.options import open_store
    from cotune.jobfile.metric import as_measured

    with open_store(store) as kept:
        settings = as_measured(settings, kept)
        history = recalled(settings, kept, wanted=with_history)
        return settings, known_samples(settings, kept, history), history


def _print(settings: Settings, outlook: Outlook, *, everything: bool, json: bool) -> None:
    from dataclasses import replace

    import numpy as np

    from cotune.cli.output import emit_json
    from cotune.plan.assess import assess

    goal = replace(settings.goal, target=None, prefer="cheap")
    found = assess(outlook, goal, settings.cluster, settings.job.sign)
    rows = np.flatnonzero(np.isfinite(found.seconds))
    shown = rows if everything or len(rows) <= SHOWN else rows[np.linspace(0, len(rows) - 1, SHOWN).astype(int)]
    forecasts = [found.forecast(int(row)) for row in shown]
    if json:
        documents = [_document(forecast, goal.max_epochs) for forecast in forecasts]
        emit_json("predict", {"job": settings.job.name, "rows": documents, "notes": list(outlook.notes)})
        return
    _show(settings, forecasts, outlook.notes, left_out=len(rows) - len(forecasts))


def _document(forecast: Forecast, epochs: int) -> dict[str, Any]:
    from cotune.documents import config_document, quantity_document

    document = config_document(forecast.config) | {
        "epoch_seconds": quantity_document(forecast.epoch_seconds),
        "source": forecast.epoch_seconds.source,
    }
    if forecast.accuracy is None:
        return document
    return document | {"accuracy": quantity_document(forecast.accuracy), "epochs": epochs}


def _show(settings: Settings, forecasts: list[Forecast], notes: tuple[str, ...], *, left_out: int) -> None:
    from cotune.cli.output import say, table
    from cotune.documents import config_cells, config_columns, head, spread
    from cotune.units import counted

    columns = config_columns([forecast.config for forecast in forecasts])
    accuracy = f"{settings.job.metric} after {counted(settings.goal.max_epochs, 'epoch')}"
    rows = [
        (
            *config_cells(forecast.config, columns),
            spread(forecast.epoch_seconds),
            forecast.epoch_seconds.source,
            spread(forecast.accuracy, 4),
        )
        for forecast in forecasts
    ]
    title = f"{settings.job.name}: mid (10th..90th percentile)"
    table((*head(columns), "seconds per epoch", "known from", accuracy), rows, title=title)
    for line in notes:
        say(line)
    if left_out:
        say(f"{left_out} more configs; --all shows them")
