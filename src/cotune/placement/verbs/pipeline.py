"""`cotune pipeline`: measure layers for `cotune place`, and run its plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotune.cli.options import Json
from cotune.cli.output import emit_json, say
from cotune.errors import UsageError
from cotune.placement.elastic import ask_resize
from cotune.placement.verbs._profile_layers import profile
from cotune.placement.verbs._reinforce import reinforce
from cotune.placement.verbs._run_placement import run

pipeline = typer.Typer(no_args_is_help=True, help="Measure layers for `cotune place`, and run what it planned.")

for command in (profile, run, reinforce):
    pipeline.command()(command)


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
