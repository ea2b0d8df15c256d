"""`cotune profile`: measure a few short runs within a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotune.cli._options import (
    Axis,
    BatchSize,
    Command,
    Deadline,
    Engine,
    Examples,
    File,
    Json,
    MaxEpochs,
    Name,
    NoHistory,
    Pattern,
    Seed,
    StoreUrl,
    Target,
    Timeout,
    Workers,
)


def profile(
    command: Command = None,
    budget: Annotated[str | None, typer.Option("--budget", help="What measuring may take: 90s, 5m.")] = None,
    max_samples: Annotated[int, typer.Option("--max-samples", min=1, help="Most starts.")] = 16,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed configs again.")] = False,
    for_goal: Annotated[
        bool, typer.Option("--for-goal", help="Measure only what decides for this target and deadline.")
    ] = False,
    layers: Annotated[
        str | None, typer.Option("--layers", help="Measure this network's layers for cotune place: ctrdnn(width=2048).")
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--type", help="With --layers: cpu(price_per_hour=0.04, limit=12). May be given several times."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="With --layers: the file to write.")] = Path(
        "profile.json"
    ),
    random_layers: Annotated[
        int | None,
        typer.Option(
            "--random-layers", min=1, help="Time so many random layers of each kind here instead of a job, into a CSV."
        ),
    ] = None,
    layer_kinds: Annotated[
        str, typer.Option("--kinds", help="With --random-layers: which: dense, conv, pool, recurrent.")
    ] = "dense,conv,pool,recurrent",
    into: Annotated[Path, typer.Option("--into", help="With --random-layers: the folder of their tables.")] = Path(
        "layers"
    ),
    no_history: NoHistory = False,
    workers: Workers = None,
    batch_size: BatchSize = None,
    axis: Axis = None,
    target: Target = None,
    deadline: Deadline = None,
    max_epochs: MaxEpochs = None,
    examples: Examples = None,
    pattern: Pattern = None,
    timeout: Timeout = None,
    name: Name = None,
    file: File = None,
    store: StoreUrl = None,
    engine: Engine = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure a job with a few short real runs, within a budget. Or the layers of a network, or random layers."""
    if layers is not None:
        from cotune.cli._layers import profile_layers

        profile_layers(layers, kinds or [], output, units=workers, batches=batch_size, budget=budget, json=json)
        return
    if random_layers is not None:
        from cotune.cli._random_layers import time_layers

        time_layers(random_layers, layer_kinds, into, budget, seed=seed, json=json)
        return
    from cotune.cli._job_profile import ProfileFlags, profile_job
    from cotune.cli._options import load_settings, search_overrides

    told = {
        "run": command,
        "name": name,
        "examples": examples,
        "pattern": pattern,
        "target": target,
        "deadline": deadline,
        "max_epochs": max_epochs,
        "timeout": timeout,
        "engine": engine,
        "budget": {"profile": budget} if budget else None,
    }
    settings = load_settings(file, told | {"search": search_overrides(workers, batch_size, axis)})
    flags = ProfileFlags(max_samples, for_goal, retry_failed, not no_history, seed)
    profile_job(settings, store, flags, json=json)
