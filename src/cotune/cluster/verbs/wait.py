"""`cotune wait`: wait until a submitted job has ended."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from cotune.cli.options import Json, StoreUrl
from cotune.cli.output import emit_json, say
from cotune.cluster.service.documents import status_document
from cotune.cluster.service.watch import PAUSE, exit_code
from cotune.cluster.verbs._queue import JobId, open_queue
from cotune.errors import OverBudget
from cotune.units import seconds


def wait(
    job: JobId,
    timeout: Annotated[str | None, typer.Option("--timeout", help="Wait no longer than 90s, 45m, 2h.")] = None,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Wait for a job to end. Exit code: 0 met or done, 5 declined, 6 missed, 7 failed, 130 cancelled, 8 time is up."""
    until = None if timeout is None else time.monotonic() + seconds(timeout)
    with open_queue(store) as queue:
        found = queue.get(job)
        while not found.is_final:
            if until is not None and time.monotonic() >= until:
                raise OverBudget(f"{found.name} is still {found.state} after {timeout} ({found.reason})")
            time.sleep(PAUSE)
            found = queue.get(found.id)
        document = status_document(found, queue.now())
    if json:
        emit_json("wait", {"job": document})
    else:
        say(f"{found.id} {found.name}: {found.state} ({found.reason})")
    raise typer.Exit(exit_code([found.state]))
