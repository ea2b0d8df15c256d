"""`cotune prioritise`: serve a submitted job before others, or after them."""

from __future__ import annotations

from getpass import getuser
from typing import Annotated

import typer

from cotune.cli.options import Json, StoreUrl
from cotune.cluster.service.queued import MOST_PRIORITY
from cotune.cluster.verbs._queue import JobId, open_queue, show_change


def prioritise(
    job: JobId,
    priority: Annotated[
        int, typer.Option("--priority", min=-MOST_PRIORITY, max=MOST_PRIORITY, help="Higher goes first.")
    ],
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Give a job that has not ended another priority; higher goes first."""
    with open_queue(store) as queue:
        show_change("prioritise", queue, queue.prioritise(job, priority, by=getuser()), json)
