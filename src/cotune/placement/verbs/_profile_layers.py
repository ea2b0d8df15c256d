"""`cotune pipeline profile`: measure a network's layers on types of device, and write what `cotune place` reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from torch import nn

from cotune.cli.options import BatchSize, Budget, Json, Workers, whole_numbers
from cotune.cli.output import emit_json, note, say, table, writing
from cotune.errors import UsageError
from cotune.placement.pipeline.ctr import network as named
from cotune.placement.profiles import TypeEntry, parse
from cotune.placement.staged import Wanted, engines, measured, require_devices
from cotune.registry import settings_of
from cotune.units import duration, seconds

UNITS = (1, 2, 4)
BATCHES = (256, 1024, 4096)


def profile(
    network: Annotated[str, typer.Argument(help="The network: ctrdnn(width=2048).")],
    kinds: Annotated[
        list[str] | None, typer.Option("--type", help="cpu(price_per_hour=0.04, limit=12). May be given several times.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("profile.json"),
    workers: Workers = None,
    batch_size: BatchSize = None,
    budget: Budget = None,
    json: Json = False,
) -> None:
    """Measure a network's layers on types of device, and write what `cotune place` reads."""
    wanted = Wanted(
        network,
        described(network),
        [read_type(kind) for kind in kinds or ["cpu"]],
        sorted({*(whole_numbers(workers, "workers") or UNITS)}),
        sorted({*(whole_numbers(batch_size, "batch_size") or BATCHES)}),
    )
    if budget is not None:  # shared out evenly over all numbers
        wanted = replace(wanted, seconds=seconds(budget) / wanted.numbers)
    require_devices(wanted.types)
    folder = Path(mkdtemp(prefix="cotune-"))
    with engines() as there:
        found = measured(there, wanted, folder, note)
    rmtree(folder)  # after a failure it stays: the error says that the logs are there
    layers = found.profile()
    if json:
        emit_json("profile.layers", {"profile": layers})
    else:
        _show(layers)
    _write(output, layers)


def described(model: str) -> list[dict[str, Any]]:
    """Return a network's layers by name and kind, with the bytes of their weights."""

    def held(part: nn.Module) -> int:
        return sum(weights.nbytes for weights in part.parameters())

    return [
        {"name": layer.name, "kind": layer.kind, "weight_bytes": float(held(layer.make()))}
        for layer in named(model).layers
    ]


def read_type(text: str) -> TypeEntry:
    """Return the type in 'cpu', 'cpu(price_per_hour=0.04, limit=12)' or 'slow(device=cpu, cores=0.25, link=1gbit)'."""
    name, _, rest = text.partition("(")
    settings = settings_of(rest.removesuffix(")"))
    try:
        return TypeEntry.model_validate({"name": name.strip(), "price_per_hour": 0.0, **_floats(settings)})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"] if part not in ("float", "int"))
        raise UsageError(f"--type {text}: {field}: {first['msg']}") from None


def _floats(settings: Any) -> dict[str, Any]:
    numeric = ("price_per_hour", "cores", "memory_bytes")
    return {
        key: float(value) if key in numeric and isinstance(value, int) else value for key, value in settings.items()
    }


def _write(output: Path, profile: dict[str, Any]) -> None:
    parse(profile, str(output))
    with writing(output):
        output.write_text(json.dumps(profile, indent=1) + "\n", encoding="utf-8")
    note(f"wrote {output}; next: cotune place {output} --throughput N")


def _show(profile: dict[str, Any]) -> None:
    names = [entry["name"] for entry in profile["types"]]
    missed = {(entry["type"], entry["first"], entry["last"]): entry["miss"] for entry in profile["missed"]}
    rows = [
        (
            layer["name"],
            name,
            duration(layer["compute"][column]),
            f"{layer['compute_parallel'][column]:.3f}",
            duration(layer["sync"][column]),
            duration(layer["cut_before"][column]) if place else "",
            f"off by {missed[name, place, place]:.0%}" if (name, place, place) in missed else "fits",
        )
        for place, layer in enumerate(profile["layers"])
        for column, name in enumerate(names)
    ]
    table(("layer", "type", "compute", "parallel", "synchronise", "cut before", "Amdahl, affine"), rows)
    say(f"seconds for {profile['batch']} examples on one unit; synchronise: on two and more")
    if missed:
        say(f"{len(missed)} stages are off by more than a tenth, {max(missed.values()):.0%} at worst: they are a table")
