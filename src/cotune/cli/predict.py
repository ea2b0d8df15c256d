"""`cotune predict`: seconds per epoch and learning curves, with intervals."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cotune.cli._options import (
    AccuracyPredictor,
    Axis,
    BatchSize,
    Command,
    File,
    Json,
    Name,
    Predictor,
    Seed,
    StoreUrl,
    Workers,
)


def predict(
    command: Command = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole space, not a selection.")] = False,
    workers: Workers = None,
    batch_size: BatchSize = None,
    axis: Axis = None,
    predictor: Predictor = "auto",
    accuracy: AccuracyPredictor = "auto",
    name: Name = None,
    file: File = None,
    store: StoreUrl = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Predict seconds per epoch (and accuracy) of configs, measured or not, with intervals."""
    import numpy as np

    from cotune.cli._documents import config_document, quantity_document, spread
    from cotune.cli._forecasting import known_samples, make_forecaster
    from cotune.cli._options import load_settings, open_store, search_overrides
    from cotune.cli._output import emit_json, say, table
    from cotune.plan.assess import assess

    overrides = {"run": command, "name": name, "search": search_overrides(workers, batch_size, axis)}
    settings = load_settings(file, overrides)
    with open_store(store) as kept:
        samples = known_samples(settings, kept)
    configs = settings.space.configs()
    configs = configs.take(configs.valid)
    outlook = make_forecaster(settings, samples, predictor, accuracy, seed)(configs, settings.goal.max_epochs)
    found = assess(outlook, settings.goal, settings.cluster, settings.job.sign)
    rows = (
        np.arange(len(configs))
        if everything or len(configs) <= 40
        else np.linspace(0, len(configs) - 1, 40).astype(int)
    )
    forecasts = [found.forecast(int(row)) for row in rows]
    if json:
        documents: list[dict[str, Any]] = []
        for forecast in forecasts:
            pace = quantity_document(forecast.epoch_seconds)
            document = config_document(forecast.config) | {
                "epoch_seconds": pace,
                "source": forecast.epoch_seconds.source,
            }
            if forecast.accuracy is not None:
                document["accuracy"] = quantity_document(forecast.accuracy)
            documents.append(document)
        emit_json("predict", {"job": settings.job.name, "rows": documents, "notes": list(outlook.notes)})
        return
    columns = ("workers", "batch", "global batch", "seconds per epoch", "known from")
    table(
        columns,
        [
            (
                forecast.config.workers,
                forecast.config.batch_size,
                forecast.config.global_batch,
                spread(forecast.epoch_seconds),
                forecast.epoch_seconds.source,
            )
            for forecast in forecasts
        ],
        title=f"{settings.job.name}: mid (10th..90th percentile)",
    )
    for line in outlook.notes:
        say(line)
    if len(forecasts) < len(configs):
        say(f"{len(forecasts)} of {len(configs)} configs shown; --all shows the rest")
