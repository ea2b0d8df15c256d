"""`cotune pipeline`: measure layers for `cotune place`, and run its plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotune.cli.options import BatchSize, Budget, Command, Json, Seed, Workers
from cotune.cli.output import emit_json, say
from cotune.errors import UsageError
from cotune.placement.elastic import ask_resize
from cotune.placement.verbs._profile_layers import profile_layers
from cotune.placement.verbs._reinforce import reinforced
from cotune.placement.verbs._run_placement import PipelineRun, run_placement

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
    budget: Budget = None,
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
    engine: Annotated[
        str, typer.Option("--engine", help="local, ray, slurm, with settings if any: ray(address=10.0.0.1:6379).")
    ] = "local",
    table_servers: Annotated[
        int, typer.Option("--table-servers", min=0, help="Processes of their own that hold the embedding tables.")
    ] = 0,
    restarts: Annotated[
        int, typer.Option("--restarts", min=0, help="Starts in a row that may fail without a further checkpoint.")
    ] = 3,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run the stages of a plan to their end, and put predicted beside measured.

    After -- stand flags of the pipeline program: --batches 200 --checkpoint-every 20.
    """
    run_placement(plan, command, seed, PipelineRun(search, engine, table_servers, restarts), json=json)


@pipeline.command()
def reinforce(
    profile: Annotated[Path, typer.Argument(help="What `cotune pipeline profile` wrote.")],
    throughput: Annotated[float, typer.Option("--throughput", help="Examples per second to reach at least.")],
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Plans that the policy draws and runs.")] = 12,
    batches: Annotated[int, typer.Option("--batches", min=4, help="Batches of each run.")] = 30,
    provision: Annotated[str, typer.Option("--provision", help="exact, or balanced as HeterPS does.")] = "exact",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Let HeterPS's policy learn from plans that are really run, and compare it with the exact plan."""
    reinforced(profile, throughput, episodes, batches, provision, seed, json=json)


@pipeline.command()
def resize(
    folder: Annotated[Path, typer.Argument(help="Where its logs are, as `cotune pipeline run` said.")],
    units: Annotated[str, typer.Argument(help="Units of every stage, commas between: 2,1,1.")],
    json: Json = False,
) -> None:
    """Let a pipeline that runs go on with more or fewer units of its stages, from its next checkpoint."""
    counts = [int(part) if part.strip().isdigit() else 0 for part in units.split(",")]
    if min(counts) < 1:
        raise UsageError(f"cannot read {units!r}; write the units of every stage, at least one each: 2,1,1")
    ask_resize(folder, counts)
    if json:
        emit_json("pipeline.resize", {"folder": str(folder), "units": counts})
    else:
        say(f"the pipeline in {folder} goes on with {units} units from its next checkpoint")
