"""`cotune model`: what a model costs before it is trained."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from cotune.cli.options import Json
from cotune.cli.output import emit_json, say, table
from cotune.devices.calibration import keep
from cotune.devices.present import visible_gpus
from cotune.modelling.verbs._inspect import inspect
from cotune.modelling.verbs._layouts import layouts
from cotune.modelling.verbs._memory import memory
from cotune.modelling.verbs._model_predictions import predict
from cotune.modelling.verbs._random_layers import layers
from cotune.store import work_folder
from cotune.units import number

model = typer.Typer(no_args_is_help=True, help="Predict, inspect and measure models, trained or not.")
for command in (inspect, memory, layouts, predict, layers):
    model.command()(command)


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
