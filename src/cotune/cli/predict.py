"""`cotune predict`: seconds per epoch and learning curves of a job, or a model that was never run, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cotune.cli._model_predictions import (
    DeviceName,
    Explain,
    Inputs,
    ModelName,
    Network,
    OptimiserName,
    PrecisionName,
    Price,
    TierName,
)
from cotune.cli._options import (
    AccuracyPredictor,
    Axis,
    BatchSize,
    Command,
    Epochs,
    Examples,
    File,
    Json,
    Name,
    NoHistory,
    Predictor,
    Seed,
    StoreUrl,
    Workers,
)
from cotune.cli._recording import AllSamples, Budget, MaxSamples, RecordingFolder

if TYPE_CHECKING:
    from pathlib import Path

    from cotune.config import Settings
    from cotune.types import Forecast

SHOWN = 40


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
    model: ModelName = None,
    device: DeviceName = None,
    inputs: Inputs = None,
    examples: Examples = None,
    epochs: Epochs = None,
    precision: PrecisionName = "fp32",
    optimiser: OptimiserName = "momentum",
    tier: TierName = "auto",
    network: Network = None,
    price: Price = None,
    explain: Explain = False,
    json: Json = False,
) -> None:
    """Predict seconds per epoch and accuracy, with intervals. Of configs measured or not, or of a model never run."""
    if model is not None:
        from cotune.cli._model_predictions import predict_model

        return predict_model(
            model,
            file,
            store,
            workers=workers,
            batch_size=batch_size,
            device=device,
            inputs=inputs,
            examples=examples,
            epochs=epochs,
            precision=precision,
            optimiser=optimiser,
            tier=tier,
            network=network,
            price=price,
            explain=explain,
            json=json,
        )
    plain = (precision, optimiser, tier) == ("fp32", "momentum", "auto")
    _needs_model(device, inputs, examples, epochs, network, price, explain, not plain)
    return _predict_job(
        command,
        file,
        store,
        everything=everything,
        axes=(workers, batch_size, axis),
        predictors=(predictor, accuracy),
        recording=recording,
        max_samples=max_samples,
        budget=budget,
        all_samples=all_samples,
        name=name,
        no_history=no_history,
        seed=seed,
        json=json,
    )


def _needs_model(*given: object) -> None:
    from cotune.errors import UsageError

    if any(value for value in given):
        raise UsageError(
            "--device, --input, --examples, --epochs, --precision, --optimiser, --tier, --network, --price "
            "and --explain need --model"
        )


def _predict_job(
    command: list[str] | None,
    file: Path | None,
    store: str | None,
    *,
    everything: bool,
    axes: tuple[str | None, str | None, list[str] | None],
    predictors: tuple[str, str],
    recording: Path | None,
    max_samples: int,
    budget: float | None,
    all_samples: bool,
    name: str | None,
    no_history: bool,
    seed: int,
    json: bool,
) -> None:
    """Predict the configs of a job from its samples."""
    from dataclasses import replace

    import numpy as np

    from cotune.cli._forecasting import known_samples, recalled
    from cotune.cli._options import load_settings, open_store, search_overrides
    from cotune.cli._output import emit_json
    from cotune.cli._recording import Reading, replay
    from cotune.documents import config_document, quantity_document
    from cotune.plan.assess import assess
    from cotune.predict import forecaster

    searched = search_overrides(*axes)
    history = None
    if recording:
        # Seconds per epoch alone: without a target no learning curve is worth its cost.
        played = replay(
            recording,
            {"epochs": None if all_samples else 1, "search": searched},
            Reading(max_samples, budget, all_samples),
            file,
        )
        settings = played.settings
        samples = played.kept_samples(store, seed)
    else:
        settings = load_settings(file, {"run": command, "name": name, "search": searched})
        with open_store(store) as kept:
            history = recalled(settings, kept, wanted=not no_history)
            samples = known_samples(settings, kept, history)
    job, space, epochs = settings.job, settings.space, settings.goal.max_epochs
    known = history.blended(samples) if history else samples
    learnt = forecaster(job, known, settings.cluster, predictor=predictors[0], accuracy=predictors[1], seed=seed)
    outlook = (history.doubted(learnt, samples) if history else learnt)(space.configs(), epochs)
    found = assess(outlook, replace(settings.goal, target=None, prefer="cheap"), settings.cluster, job.sign)
    rows = np.flatnonzero(np.isfinite(found.seconds))
    shown = rows if everything or len(rows) <= SHOWN else rows[np.linspace(0, len(rows) - 1, SHOWN).astype(int)]
    forecasts = [found.forecast(int(row)) for row in shown]
    if json:
        documents = [
            config_document(one.config)
            | {"epoch_seconds": quantity_document(one.epoch_seconds), "source": one.epoch_seconds.source}
            | ({"accuracy": quantity_document(one.accuracy), "epochs": epochs} if one.accuracy else {})
            for one in forecasts
        ]
        emit_json("predict", {"job": job.name, "rows": documents, "notes": list(outlook.notes)})
        return
    _show(settings, forecasts, outlook.notes, left_out=len(rows) - len(forecasts))


def _show(settings: Settings, forecasts: list[Forecast], notes: tuple[str, ...], *, left_out: int) -> None:
    from cotune.cli._output import say, table
    from cotune.documents import config_cells, config_columns, head, spread

    columns = config_columns([forecast.config for forecast in forecasts])
    accuracy = f"{settings.job.metric} after {settings.goal.max_epochs} epochs"
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
