"""`cotune algorithms`: everything in the box, with its one line."""

from __future__ import annotations

from typing import Annotated

import typer

from cotune import registry
from cotune.cli.options import Json
from cotune.cli.output import emit_json, table
from cotune.errors import UsageError, suggestion


def algorithms(
    kind: Annotated[
        str | None, typer.Argument(help="Only one kind: predictor, search, placement, strategy, policy or engine.")
    ] = None,
    json: Json = False,
) -> None:
    """List every algorithm with its one line. Predictors, searches, placements, strategies, policies and engines."""
    words = tuple(registry.KINDS)
    if kind is not None and kind not in words:
        raise UsageError(f"no kind named {kind!r}; there are {', '.join(words)}{suggestion(kind, words)}")
    rows = [
        {"kind": word, "name": name, "summary": registry.summary(word, name)}
        for word in words
        for name in registry.names(word)
        if kind in (None, word)
    ]
    if json:
        emit_json("algorithms", {"algorithms": rows})
    else:
        table(("kind", "name", "what it does"), [tuple(row.values()) for row in rows])
