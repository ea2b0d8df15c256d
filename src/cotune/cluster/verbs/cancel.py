"""`cotune cancel`: end a submitted job for good."""

from __future__ import annotations

from getpass import getuser

from cotune.cli.options import Json, StoreUrl
from cotune.cluster.verbs._queue import JobId, open_queue, show_change


def cancel(job: JobId, store: StoreUrl = None, json: Json = False) -> None:
    """Cancel a job. One that runs is stopped by its service; a cancelled job never starts again."""
    with open_queue(store) as queue:
        show_change("cancel", queue, queue.cancel(job, by=getuser()), json)
