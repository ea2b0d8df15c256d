"""`cotune record`: what the store measured of a job, as a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotune.cli._options import Command, File, Json, Name, StoreUrl


def record(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")],
    command: Command = None,
    name: Name = None,
    file: File = None,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Write the samples of a job as a recording that anybody can replay."""
    from cotune.adapters.samples import recorded_tables
    from cotune.cli._options import load_settings, open_store
    from cotune.cli._output import emit_json, say
    from cotune.errors import NotFound
    from cotune.recording import write

    settings = load_settings(file, {"run": command, "name": name})
    with open_store(store) as kept:
        samples = kept.samples(settings.job)
    times, accuracy = recorded_tables(samples)
    if not times:
        raise NotFound(f"no samples of job {settings.job.name!r} to record; measure it first: cotune profile")
    if settings.job.examples is None:
        raise NotFound(f"a recording tells the examples in an epoch: give `examples` of {settings.job.name}")
    write(output, settings.job, times, accuracy, settings.cluster.devices)
    if json:
        emit_json("record", {"recording": str(output), "times": len(times), "evaluations": len(accuracy)})
        return
    say(f"{output}: {len(times)} times and {len(accuracy)} evaluations of {settings.job.name}")
