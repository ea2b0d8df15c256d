"""`cotune pipeline`: measure layers for `cotune place`, and run its plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotune.cli.options import BatchSize, Command, Json, Seed, Workers
from cotune.placement.verbs._profile_layers import profile_layers
from cotune.placement.verbs._run_placement import run_placement

pipeline = typer.Typer(no_args_is_help=True, help="Measure layers for `cotune place`, and run what it planned.")


@pipeline.command()
def profile(
    network: Annotated[str, typer.Argument(help="The network: ctrdnn(width=2048).")],
    kinds: Annotated[
        list[str] | None,
        typer.Option("--type", help="cpu(price_per_hour=0.04, limit=12). May be given several times."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("profile.json"),
    workers: Workers = None,
    batch_size: BatchSize = None,
    budget: Annotated[str | None, typer.Option("--budget", help="What measuring may take: 90s, 5m.")] = None,
    json: Json = False,
) -> None:
    """Measure a network's layers on types of device, and write what `cotune place` reads."""

    profile_layers(network, kinds or [], output, units=workers, batches=batch_size, budget=budget, json=json)


@pipeline.command()
def run(
    plan: Annotated[Path, typer.Argument(help="A plan written by cotune place --json.")],
    command: Command = None,
    search: Annotated[
        str | None, typer.Option("--search", help="Run what this search found instead of the best plan.")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run the stages of a plan to their end, and put predicted beside measured."""

    run_placement(plan, command, seed, search=search, json=json)
