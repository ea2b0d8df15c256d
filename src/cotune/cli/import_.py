"""`cotune import`: published measurements as recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotune.cli._options import Json


def import_(
    name: Annotated[str, typer.Argument(help="The data set: pollux, zeus, mlperf-v0.6, ...")],
    source: Annotated[Path, typer.Argument(help="The folder that holds it.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the recordings go, one folder each.")],
    json: Json = False,
) -> None:
    """Write the measured rows of a published data set as recordings."""
    from cotune.adapters.recordings import import_recordings
    from cotune.cli._output import emit_json, say

    written = import_recordings(name, source, output)
    if json:
        emit_json("import", {"recordings": [str(folder) for folder in written]})
        return
    for folder in written:
        say(str(folder))
    say(f"{len(written)} recordings; next: cotune bench planning --recordings {output}")
