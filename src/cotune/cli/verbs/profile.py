"""`cotune profile`: measure a few short runs within a budget."""

from __future__ import annotations

from typing import Annotated

import typer

from cotune.cli.options import (
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
    """Measure a job with a few short real runs, within a budget."""
    from cotune.cli.job_profile import ProfileFlags, profile_job
    from cotune.cli.options import load_settings, search_overrides

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
