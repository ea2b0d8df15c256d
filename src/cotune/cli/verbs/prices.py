"""`cotune prices`: what devices cost an hour, by whom and since when."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cotune.cli.options import Json
from cotune.cli.output import emit_json, say, table
from cotune.errors import NotFound, suggestion
from cotune.jobfile.prices import Price, imported, keep, read, shipped
from cotune.store import work_folder

prices = typer.Typer(no_args_is_help=True, help="List what devices cost an hour, or import prices.")


@prices.command(name="list")
def list_(
    device: Annotated[str | None, typer.Argument(help="Only this device.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """List the prices that job files get for devices without one, with their sources and dates."""
    own = imported(work_folder(Path.cwd()))
    mine = {price.device for price in own}
    known = [*own, *(price for price in shipped() if price.device not in mine)]
    found = sorted((p for p in known if device in (None, p.device)), key=lambda p: (p.device, p.price_per_hour))
    if not found:
        names = sorted({price.device for price in known})
        raise NotFound(f"no price of {device!r} is known; there are {', '.join(names)}{suggestion(str(device), names)}")
    if json:
        emit_json("prices", {"prices": [_document(price) for price in found]})
        return
    columns = ("device", "an hour", "", "cloud", "a node has", "date", "source")
    rows = [
        (p.device, f"{p.price_per_hour:.4g}", p.currency, p.cloud, p.per_node or "", p.date.isoformat(), p.source)
        for p in found
    ]
    table(columns, rows)


@prices.command(name="import")
def import_(
    source: Annotated[Path, typer.Argument(help="A CSV or YAML file, or SkyPilot's catalogues (~/.sky/catalogs).")],
    spot: Annotated[bool, typer.Option("--spot", help="Spot prices of a catalogue.")] = False,
    json: Json = False,
) -> None:
    """Keep prices of your own for this project (or for this user): they go before the list."""
    new = read(source.expanduser(), spot=spot)
    kept = keep(work_folder(Path.cwd()), new)
    if json:
        emit_json("prices", {"prices": [_document(price) for price in new], "file": str(kept)})
        return
    say(f"{len(new)} prices of {len({price.device for price in new})} devices in {kept}; next: cotune prices list")


def _document(price: Price) -> dict[str, object]:
    return asdict(price) | {"date": price.date.isoformat()}
