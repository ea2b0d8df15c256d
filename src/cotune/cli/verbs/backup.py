"""`cotune backup`: copy a store, while it is in use, into a new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy import URL

from cotune.cli.options import Json, StoreUrl, open_store
from cotune.cli.output import emit_json, say
from cotune.errors import UsageError
from cotune.store import Store
from cotune.store.copying import copy_store
from cotune.store.location import label, locate
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
    with open_store(store, reading=True) as source, _new(url) as target:
        counts = copy_store(source, target)
    if json:
        emit_json("backup", {"store": label(url), "rows": counts})
    else:
        told = f"{counted(counts['samples'], 'sample')}, {counted(counts['queue'], 'submitted job')}"
        say(f"copied {told} and {sum(counts.values())} rows in all to {label(url)}")


@contextmanager
def _new(url: URL) -> Iterator[Store]:
    """Yield an empty store that gets its name once it is whole: a file is written beside, and removed on failure."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        with Store(url) as target:
            yield target
        return
    path = Path(url.database)
    if os.path.lexists(path):
        raise UsageError(f"{path} is there already: name a file that is not")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with Store(url.set(database=str(beside))) as target:
            yield target
        beside.rename(path)
    finally:
        for suffix in ("", "-wal", "-shm"):
            beside.with_name(beside.name + suffix).unlink(missing_ok=True)
