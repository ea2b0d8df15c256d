"""`cotune prices`: what devices cost an hour, by whom and since when."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from cotune.cli.options import Json
from cotune.cli.output import emit_json, table
from cotune.errors import NotFound, suggestion
from cotune.jobfile.prices import shipped


def prices(
    device: Annotated[str | None, typer.Argument(help="Only this device.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """List the prices that job files get for devices without one, with their sources and dates."""
    known = shipped()
    found = sorted((p for p in known if device in (None, p.device)), key=lambda p: (p.device, p.price_per_hour))
    if not found:
        names = sorted({price.device for price in known})
        raise NotFound(f"no price of {device!r} is known; there are {', '.join(names)}{suggestion(str(device), names)}")
    if json:
        emit_json("prices", {"prices": [asdict(price) | {"date": price.date.isoformat()} for price in found]})
        return
    columns = ("device", "an hour", "", "cloud", "a node has", "date", "source")
    rows = [
        (p.device, f"{p.price_per_hour:.4g}", p.currency, p.cloud, p.per_node or "", p.date.isoformat(), p.source)
        for p in found
    ]
    table(columns, rows)
