"""`cotune model`: what a model costs before it is trained."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cotune.cli.options import Budget, Json, Seed, one_of
from cotune.cli.output import emit_json, note, progress, say, table
from cotune.devices.present import keep, visible_gpus
from cotune.errors import missing_extra
from cotune.modelling.layer_rows import SHAPES
from cotune.modelling.verbs._inspect import inspect
from cotune.modelling.verbs._layouts import layouts
from cotune.modelling.verbs._memory import memory
from cotune.modelling.verbs._model_predictions import predict
from cotune.store import work_folder
from cotune.units import duration, number, seconds

model = typer.Typer(no_args_is_help=True, help="Predict, inspect and measure models, trained or not.")
for command in (inspect, memory, layouts, predict):
    model.command()(command)


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
    wanted = tuple(one_of(tuple(SHAPES), word.strip(), "--kinds") for word in kinds.split(","))
    try:
        import torch
    except ImportError:
        raise missing_extra("torch, which runs the layers,", "torch") from None
    from cotune.modelling.workloads.random_layers import Collection, collect, device_name

    device = "cuda" if torch.cuda.is_available() else "cpu"
    begun = time.monotonic()
    deadline = None if budget is None else begun + seconds(budget)
    timed = failed = 0
    with progress(float(count)) as shown:
        for layer in collect(into, wanted, count, device, Collection(seed=seed, evenly=evenly), deadline=deadline):
            timed, failed = timed + 1, failed + (layer.ms is None)
            if layer.ms is None:
                note(f"could not run {layer.kind} {layer.shape}: its row has no time")
            if (layer.number + 1) % 10 == 0 or shown.total <= 20:
                pace = (time.monotonic() - begun) / timed
                left = pace * (len(wanted) * (count - layer.number) - wanted.index(layer.kind) - 1)
                shown.update(layer.number + 1, f"{layer.number + 1} of {count} layers of each kind", left)
    name, spent = device_name(device), time.monotonic() - begun
    files = [str(into / f"{kind}_{name}.csv") for kind in wanted]
    if json:
        facts = {"device": name, "timed": timed, "failed": failed, "seconds": spent, "files": files}
        emit_json("profile.random_layers", facts)
        return
    say(f"timed {timed - failed} layers on {name} in {duration(spent)}" + (f", {failed} failed" if failed else ""))
    say(f"they are in {', '.join(files)}; the same command goes on from there")
    say(f"next: cotune bench layers {into}")


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
            _by_precision(one.product),
            _by_precision(one.convolution),
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


def _by_precision(rates: Mapping[str, float]) -> str:
    return ", ".join(f"{number(rate / 1e9, 3)} {name}" for name, rate in rates.items())
