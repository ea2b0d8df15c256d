"""`cotune release`: let a job start that was held."""

from __future__ import annotations

from getpass import getuser

from cotune.cli.options import Json, StoreUrl
from cotune.cluster.verbs._queue import JobId, open_queue, show_change


def release(job: JobId, store: StoreUrl = None, json: Json = False) -> None:
    """Let a job start again that was held."""
    with open_queue(store) as queue:
        show_change("release", queue, queue.release(job, by=getuser()), json)
