"""What `cotune model predict` prints: predictions with bounds, and where the seconds of a step go."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotune.cli.help import rare_flag
from cotune.cli.options import (
    BatchSize,
    Epochs,
    Examples,
    File,
    Json,
    StoreUrl,
    Workers,
    open_store,
    require_model_file,
)  # fmt: skip
from cotune.cli.output import emit_json, say, table, waiting
from cotune.documents import config_document, quantity_document, spread
from cotune.jobfile import settings as job_settings
from cotune.predict.input_law import InputLaw
from cotune.units import gibibytes, number, short_duration

if TYPE_CHECKING:
    from cotune.modelling.counting.counts import Counts
    from cotune.modelling.prediction import Prediction
    from cotune.modelling.verbs._modelling import ModelAnswer
    from cotune.types import Config, Quantity

DeviceName = Annotated[
    str | None,
    typer.Option("--device", help="Where it would be trained: a100, or v100,t4,a100 to compare (default: here)."),
]
Inputs = Annotated[
    list[str] | None, typer.Option("--input", help="One example's shape: 3x224x224, or int1000:128. Repeat for more.")
]
Explain = Annotated[bool, typer.Option("--explain", help="Split the step and list operators without a formula.")]
TierName = Annotated[
    str,
    rare_flag(
        "Options",
        "--tier",
        help="auto, counts, history, scaled, steps, probe, layerwise, layer_trees, paleo(scheme=one_to_all).",
    ),
]
PrecisionName = Annotated[str, typer.Option("--precision", help="fp32, tf32, bf16 or fp16.")]
OptimiserName = Annotated[str, rare_flag("Options", "--optimiser", help="sgd, momentum or adam.")]
LayerFolder = Annotated[
    Path, rare_flag("Options", "--layers", help="For --tier layerwise: the tables that `cotune model layers` wrote.")
]
Network = Annotated[str | None, rare_flag("Options", "--network", help="The slowest link between workers: 25gbit.")]
Price = Annotated[float | None, rare_flag("Options", "--price", help="Money per device and hour.", min=0)]


def predict(
    model: Annotated[
        str, typer.Argument(help="A torch model: package.module:callable, file.py:callable, a short name, or job.")
    ],
    device: DeviceName = None,
    workers: Workers = None,
    batch_size: BatchSize = None,
    inputs: Inputs = None,
    examples: Examples = None,
    epochs: Epochs = None,
    precision: PrecisionName = "fp32",
    optimiser: OptimiserName = "momentum",
    tier: TierName = "auto",
    layers: LayerFolder = Path("layers"),
    network: Network = None,
    price: Price = None,
    explain: Explain = False,
    file: File = None,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Predict seconds, memory and cost of a model that was never run, with intervals."""
    settings = job_settings.load(file or job_settings.find(Path.cwd()), {})
    require_model_file(model)
    with waiting("loading torch"):
        from cotune.modelling.verbs._model_query import devices_of, query_of, work_of
        from cotune.modelling.verbs._modelling import answer
    with open_store(store) as kept, waiting(f"counting {model}, and measuring it where it can run"):
        law = InputLaw.of(settings.job, kept.samples(settings.job)) if model == "job" else None
        devices = devices_of(device)
        asked = query_of(model, inputs, settings, batch_size, workers, precision, optimiser, tier, network)
        queries = [
            replace(asked, device=name, work=work_of(settings, name, examples, epochs, price), layers=layers, input=law)
            for name in devices
        ]
        answered = answer(queries, settings.cluster, kept)
    if json:
        emit_json("predict.model", _document(answered, explain))
        return
    _show(answered, explain)
    if explain and law is None:
        say("note      input: reading is not counted; `cotune model predict job` tells it of a job that was profiled")


def _document(answered: ModelAnswer, explain: bool) -> dict[str, Any]:
    rows = [_row(prediction, explain) for prediction in answered.predictions]
    counts = [_counts(one) for one in answered.counts]
    devices = list(answered.devices)
    return {
        "model": answered.workload.name,
        "device": ",".join(devices),
        "devices": devices,
        "rows": rows,
        "counts": counts,
    }


def _row(found: Prediction, explain: bool) -> dict[str, Any]:
    names = ("step_seconds", "epoch_seconds", "seconds", "peak_bytes", "cost")
    quantities = {name: getattr(found, name) for name in names}
    row = config_document(found.config) | {
        name: quantity_document(value) if value else None for name, value in quantities.items()
    }
    row |= {"source": found.step_seconds.source, "tier": found.tier, "known_from": found.known_from, "fits": found.fits}
    return row | {"notes": list(found.notes)} | ({"split": asdict(found.split)} if explain else {})


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "batch_size": counts.batch,
        **totals_document(counts),
        "mix": dict(counts.mix),
        "without_formula": dict(counts.without_formula),
    }


def totals_document(counts: Counts) -> dict[str, Any]:
    """Return the counts of a whole step, for both verbs that show them."""
    names = ("flops", "bytes", "operators", "parameters", "activation_bytes", "peak_bytes", "how")
    return {name: getattr(counts, name) for name in names}


def _show(answered: ModelAnswer, explain: bool) -> None:
    rows = [
        (
            *_cells(answered, found.config),
            found.config.global_batch,
            _time(found.step_seconds),
            _time(found.epoch_seconds),
            _time(found.seconds),
            gibibytes(found.peak_bytes.mid) + (" too much" if found.fits is False else ""),
            f"{spread(found.cost)} {found.cost.unit}" if found.cost else "unknown",
            found.step_seconds.source,
        )
        for found in answered.predictions
    ]
    head = ("global batch", "step", "epoch", "training", "memory", "cost", "known from")
    title = f"{answered.workload.name} on {', '.join(answered.devices)}: mid (10th..90th percentile)"
    table((*_cells(answered), *head), rows, title=title)
    for line in _known_from(answered):
        say(f"by        {line}")
    if explain:
        _explain(answered)
    for line in dict.fromkeys(note for found in answered.predictions for note in found.notes):
        say(f"note      {line}")


def _cells(answered: ModelAnswer, config: Config | None = None) -> tuple[Any, ...]:
    """Return the first cells of a config's line, or their heads; the device is named where there are several."""
    cells = (config.device, config.workers, config.batch_size) if config else ("device", "workers", "batch")
    return cells if len(answered.devices) > 1 else cells[1:]


def _known_from(answered: ModelAnswer) -> list[str]:
    """Return what the predictions were made from, with the devices it holds for where that is not all of them."""
    devices: dict[str, list[str]] = {}
    for found in answered.predictions:
        devices.setdefault(found.known_from, []).append(found.config.device)
    if len(devices) == 1 or len(answered.devices) == 1:
        return list(devices)[:1]
    return [f"{words}: {', '.join(dict.fromkeys(names))}" for words, names in devices.items()]


def _time(quantity: Quantity | None) -> str:
    if quantity is None:
        return "unknown"
    low, mid, high = (short_duration(value) for value in (quantity.low, quantity.mid, quantity.high))
    return f"{mid} ({low}..{high})"


def _explain(answered: ModelAnswer) -> None:
    parts = ("compute", "communication", "input", "overhead")
    rows = [
        (
            *_cells(answered, found.config),
            *(
                f"{short_duration(getattr(found.split, part))} ({getattr(found.split, part) / found.split.seconds:.0%})"
                for part in parts
            ),
        )
        for found in answered.predictions
    ]
    say()
    table((*_cells(answered), *parts), rows)
    for counts in answered.counts:
        families = ", ".join(
            f"{family} {share:.0%}" for family, share in sorted(counts.mix.items(), key=lambda one: -one[1])
        )
        work = (
            f"{number(counts.flops / 1e9)} GFLOP, {number(counts.bytes / 1e9)} GB moved, {counts.operators} operators"
        )
        say(f"counted   batch {counts.batch}: {work}, {counts.parameters:,} parameters ({counts.how})")
        say(f"bytes     {families}")
