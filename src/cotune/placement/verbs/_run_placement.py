"""`cotune pipeline run`: run what `cotune place --json` planned, and put predicted beside measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_core import from_json

from cotune import registry
from cotune.cli.options import Command, Json, Seed, runs_folder
from cotune.cli.output import emit_json, note, progress, say, table
from cotune.errors import InvalidFile, NotFound, UsageError
from cotune.identity import new_id
from cotune.placement.elastic import RESTARTS, described, trained
from cotune.placement.profiles import TypeEntry
from cotune.placement.staged import TRAIN, Staged, engines
from cotune.run.engines.slurm import Slurm
from cotune.run.launch import Engine, Reported
from cotune.types import Stage
from cotune.units import duration, number


def run(
    plan: Annotated[Path, typer.Argument(help="A plan written by cotune place --json.")],
    command: Command = None,
    search: Annotated[
        str | None, typer.Option("--search", help="Run what this search found instead of the best plan.")
    ] = None,
    engine: Annotated[
        str, typer.Option("--engine", help="local, ray, slurm, with settings if any: ray(address=10.0.0.1:6379).")
    ] = "local",
    table_servers: Annotated[
        int, typer.Option("--table-servers", min=0, help="Processes of their own that hold the embedding tables.")
    ] = 0,
    restarts: Annotated[
        int, typer.Option("--restarts", min=0, help="Starts in a row that may fail without a further checkpoint.")
    ] = RESTARTS,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run the stages of a plan to their end, and put predicted beside measured.

    After -- stand flags of the pipeline program: --batches 200 --checkpoint-every 20.
    """
    document, staged = read(plan, search)
    staged = replace(staged, table_servers=table_servers)
    words = list(command or ())
    if not words or words[0].startswith("-"):
        words = [*TRAIN, *_defaults(document), "--seed", str(seed), *words]
    folder = runs_folder() / new_id()
    note(f"running {described(staged)}; logs in {folder}")
    with engines(_cluster(engine, staged)) as there, progress(1.0) as shown:

        def heard(event: Reported) -> None:
            loss = "".join(f", {name} {value:.4f}" for name, value in event.metrics)
            shown.update(event.epoch or 0.0, f"{event.epoch or 0.0:.0%} of the batches{loss}")

        found = trained(there, staged, words, folder, heard, tell=note, restarts=restarts)
    if json:
        told = {"placement": document["plan"], "measured": found.result, "folder": str(folder)}
        emit_json("run.placement", told | {"starts": found.starts})
    else:
        _show(document["plan"], found.staged, found.result)


def _cluster(name: str, staged: Staged) -> Engine | None:
    """Return the engine of a cluster; the local ones are made to measure by the types."""
    if name == "local":
        return None
    made: Engine = registry.create("engine", name)
    if isinstance(made, Slurm):
        cores = {kind: entry.slurm or () for kind, entry in staged.types.items() if entry.torch_device == "cpu"}
        asked = {kind: entry.slurm for kind, entry in staged.types.items() if entry.slurm}
        made.devices = {**cores, **asked, **made.devices}
    return made


def read(path: Path, search: str | None = None) -> tuple[dict[str, Any], Staged]:
    """Return a plan's document, its plan that of a search where one is named, and the stages."""
    try:
        document = from_json(path.read_bytes())
        if search is not None:
            document["plan"] = _found(path, document["searches"], search)
        types = {entry["name"]: TypeEntry.model_validate(entry) for entry in document["types"]}
        stages = tuple(
            Stage(stage["type"], int(stage["units"]), int(stage["first"]), int(stage["last"]))
            for stage in document["plan"]["stages"]
        )
    except FileNotFoundError:
        raise NotFound(f"no plan at {path}; write one: cotune place PROFILE --throughput N --json > {path}") from None
    except OSError as error:
        raise InvalidFile(f"{path}: cannot be read as a plan: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidFile(
            f"{path}: not a plan of cotune place --json: {type(error).__name__} {str(error).splitlines()[0]}"
        ) from None
    if strange := [stage.device for stage in stages if stage.device not in types]:
        raise InvalidFile(f"{path}: a stage is on {strange[0]!r}, and types has {', '.join(types)}")
    return document, Staged(stages, types)


def _found(path: Path, searches: dict[str, Any], search: str) -> dict[str, Any]:
    """Return the plan that a search found."""
    if search not in searches:
        raise NotFound(f"{path}: no search {search!r} was made; there are {', '.join(searches)}: cotune place --search")
    plan: dict[str, Any] | None = searches[search]["plan"]
    if plan is None:
        raise NotFound(f"{path}: {search} found no plan that reaches the throughput")
    return plan


def _defaults(document: dict[str, Any]) -> list[str]:
    model = document.get("model")
    if not model:
        raise UsageError("the plan names no model: give one, such as -- --model ctrdnn, or a whole command after --")
    return ["--model", str(model), "--batch-size", str(int(document["plan"]["batch"]))]


def _show(plan: dict[str, Any], staged: Staged, result: dict[str, Any]) -> None:
    rows = [
        (
            f"{stage.first}..{stage.last}",
            stage.device,
            stage.workers,
            duration(planned["seconds"]),
            *(duration(found[name]) for name in ("compute", "sync", "waiting")),
        )
        for stage, planned, found in zip(staged.stages, plan["stages"], result["stages"], strict=True)
    ]
    table(("layers", "type", "units", "planned per batch", "computing", "synchronising", "waiting"), rows)
    say()
    rate = result["examples_per_second"]
    if rate is not None:
        planned, cost = plan["throughput"], 1e6 / rate * plan["price_per_hour"] / 3600
        say(f"examples/s  {number(rate)} measured, {number(planned)} planned ({rate / planned:.0%})")
        say(f"cost        {number(cost)} {plan['unit']} per million examples")
    losses = result["losses"]
    say(f"loss        {losses[0]:.4f} at first, {losses[-1]:.4f} after {len(losses)} batches")
