"""`cotune algorithms`: everything in the box, with its one line."""

from __future__ import annotations

from typing import Annotated

import typer

from cotune.cli._options import Json


def algorithms(
    kind: Annotated[
        str | None, typer.Argument(help="Only one kind: predictor, search, placement, strategy, policy or engine.")
    ] = None,
    json: Json = False,
) -> None:
    """List every algorithm with its one line. Predictors, searches, placements, strategies, policies and engines."""
    from cotune import algorithms as box
    from cotune.cli._output import emit_json, table
    from cotune.errors import UsageError, suggestion

    words = box.KINDS.values()
    if kind is not None and kind not in words:
        raise UsageError(f"no kind named {kind!r}; there are {', '.join(words)}{suggestion(kind, words)}")
    rows = [
        {"kind": word, "name": name, "summary": box.summary(folder, name)}
        for folder, word in box.KINDS.items()
        for name in box.names(folder)
        if kind in (None, word)
    ]
    if json:
        emit_json("algorithms", {"algorithms": rows})
    else:
        table(("kind", "name", "what it does"), [tuple(row.values()) for row in rows])
