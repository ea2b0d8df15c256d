"""`cotune hold`: keep a submitted job from starting."""

from __future__ import annotations

from getpass import getuser

from cotune.cli.options import Json, StoreUrl
from cotune.cluster.verbs._queue import JobId, open_queue, show_change


def hold(job: JobId, store: StoreUrl = None, json: Json = False) -> None:
    """Keep a job from starting until it is released. One that runs is stopped at a checkpoint."""
    with open_queue(store) as queue:
        show_change("hold", queue, queue.hold(job, by=getuser()), json)
