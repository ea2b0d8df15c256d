"""`cotune backup`: copy a store, while it is in use, into a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotune.cli.options import Json, StoreUrl, open_store
from cotune.cli.output import emit_json, say
from cotune.errors import UsageError
from cotune.store import Store
from cotune.store.copying import copy_store
from cotune.store.location import locate
from cotune.units import counted


def backup(
    to: Annotated[str, typer.Argument(help="The copy: a file, or the URL of an empty database.")],
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Copy a store: jobs, samples, plans and the queue. To restore, copy the copy. Databases may differ.

    cotune backup team-2026-11-17.db --store postgresql://host/team
    cotune backup postgresql://host/new --store team-2026-11-17.db
    """
    url = locate(to, Path())
    if url.get_backend_name() == "sqlite" and url.database and Path(url.database).exists():
        raise UsageError(f"{url.database} is there already: name a file that is not")
    with open_store(store, reading=True) as source, Store(url) as target:
        counts, label = copy_store(source, target), target.label
    if json:
        emit_json("backup", {"store": label, "rows": counts})
    else:
        told = f"{counted(counts['samples'], 'sample')}, {counted(counts['queue'], 'submitted job')}"
        say(f"copied {told} and {sum(counts.values())} rows in all to {label}")
