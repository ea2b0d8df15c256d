"""`cotune logs`: print what a submitted job wrote, and follow it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from cotune.cli.options import Json, StoreUrl
from cotune.cli.output import emit_json, show
from cotune.cluster.service.documents import event_document, moment
from cotune.cluster.service.job_files import log_lines, log_tails
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueuedJob
from cotune.cluster.verbs._queue import JobId, open_queue

_PAUSE = 0.3


def logs(
    job: JobId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    rank: Annotated[int, typer.Option("--rank", min=0, help="Which worker's output.")] = 0,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Print the events of a job, what was said while it was measured, and the output of a worker of its starts."""
    with open_queue(store) as queue:
        found = queue.get(job)
        if json:
            events = [event_document(event) for event in queue.events(found.id)]
            emit_json("logs", {"job": found.id, "events": events, "lines": list(log_lines(found, rank))})
            return
        for line in _followed(queue, found, rank) if follow else _told(queue, found, rank):
            show(line)


def _told(queue: Queue, job: QueuedJob, rank: int) -> Iterator[str]:
    for event in queue.events(job.id):
        yield f"{moment(event.at)} [{event.state}] {event.words}"
    yield from log_lines(job, rank)


def _followed(queue: Queue, job: QueuedJob, rank: int) -> Iterator[str]:
    seen, tails = 0, log_tails(job, rank)
    while True:
        now = queue.get(job.id)
        tails = tails or log_tails(now, rank)
        for event in queue.events(job.id, after=seen):
            seen = event.number
            yield f"{moment(event.at)} [{event.state}] {event.words}"
        for tail in tails:
            yield from tail.lines(last=now.is_final)
        if now.is_final:
            return
        time.sleep(_PAUSE)
