"""`cotune model`: what a model costs before it is trained."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cotune.cli.options import BatchSize, Budget, Epochs, Examples, File, Json, Seed, StoreUrl, Workers
from cotune.cli.output import emit_json, say, table
from cotune.devices.calibration import keep
from cotune.devices.present import visible_gpus
from cotune.modelling.verbs._inspect import inspect
from cotune.modelling.verbs._layouts import layouts
from cotune.modelling.verbs._memory import memory
from cotune.modelling.verbs._model_predictions import (
    DeviceName,
    Explain,
    Inputs,
    LayerFolder,
    ModelFlags,
    Network,
    OptimiserName,
    PrecisionName,
    Price,
    TierName,
    predict_model,
)
from cotune.store import work_folder
from cotune.units import number

model = typer.Typer(no_args_is_help=True, help="Predict, inspect and measure models, trained or not.")
model.command()(inspect)
model.command()(memory)
model.command()(layouts)


@model.command()
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
    flags = ModelFlags(
        model, workers, batch_size, device, inputs, examples, epochs, precision, optimiser, tier, network, price, layers
    )
    predict_model(flags, file, store, explain=explain, json=json)


@model.command()
def layers(
    count: Annotated[int, typer.Argument(min=1, help="How many random layers of each kind.")],
    kinds: Annotated[
        str, typer.Option("--kinds", help="Which: dense, conv, pool, recurrent.")
    ] = "dense,conv,pool,recurrent",
    into: Annotated[Path, typer.Option("--into", help="The folder of their tables.")] = Path("layers"),
    evenly: Annotated[bool, typer.Option("--evenly", help="Draw sizes as published: nearly all are large.")] = False,
    budget: Budget = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Time random single layers on this machine, for laws of layers to learn."""
    from cotune.modelling.verbs._random_layers import time_layers

    time_layers(count, kinds, into, budget, seed=seed, evenly=evenly, json=json)


@model.command()
def calibrate(json: Json = False) -> None:
    """Measure this machine's rates, of one core and of the first GPU where there is one, and keep them."""
    from cotune.modelling.counting.calibrate import calibrate as measure

    devices = ("cpu", "cuda") if visible_gpus() else ("cpu",)
    found = [measure(device) for device in devices]
    files = [keep(one, work_folder(Path.cwd())) for one in found]
    if json:
        written = [asdict(one) | {"file": str(file)} for one, file in zip(found, files, strict=True)]
        emit_json("doctor.calibrate", {"calibrations": written})
        return
    rows = [
        (
            f"{one.name} ({'one core' if one.kind == 'cpu' else 'one GPU'})",
            ", ".join(f"{number(rate / 1e9, 3)} {name}" for name, rate in one.product.items()),
            ", ".join(f"{number(rate / 1e9, 3)} {name}" for name, rate in one.convolution.items()),
            number(one.bandwidth / 1e9, 3),
            number(one.dispatch * 1e6, 3),
            number(one.step * 1e6, 3),
        )
        for one in found
    ]
    table(
        ("device", "products, GFLOP/s", "convolutions, GFLOP/s", "memory, GB/s", "us per operator", "us per step"), rows
    )
    say(f"kept in   {', '.join(map(str, files))}")
