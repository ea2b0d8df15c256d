"""What the verbs of the queue share: the store they open, how they name a job, and how they show one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cotune.cli.options import require_store
from cotune.cli.output import emit_json, say
from cotune.cluster.service.documents import job_document
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueuedJob
from cotune.store import open_store
from cotune.store.location import locate
from cotune.units import duration

JobId = Annotated[str, typer.Argument(help="The job's id, enough of its first letters, or its name.", metavar="JOB")]


@contextmanager
def open_queue(store: str | None, *, may_make: bool = False) -> Iterator[Queue]:
    """Yield the queue of the store that is named, or of the nearest project; one that is named must be there."""
    if store is not None and not may_make:
        require_store(locate(store, Path()))
    with open_store(store, Path()) as opened:
        yield Queue(opened)


def show_change(name: str, queue: Queue, job: QueuedJob, json: bool) -> None:
    """Print a job after something was asked of it."""
    if json:
        emit_json(name, {"job": job_document(job, queue.now())})
    else:
        say(f"{job.id} {job.name}: {job.state}{', held' if job.status.held else ''} ({job.reason})")


def eta_words(document: dict[str, Any]) -> str:
    """Return when a job ends: the middle of its forecast, and the interval."""
    eta = document["eta"]
    if eta["mid"] is None:
        return ""
    low, mid, high = (duration(round(eta[side], 1)) for side in ("low", "mid", "high"))
    return f"{mid} ({low}..{high})"


def cluster_lines(cluster: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each type of device, and one for each node that somebody holds or that is lost."""
    for kind in cluster:
        gone = f", {kind['lost']} lost" if kind["lost"] else ""
        measuring = "".join(f", {one['units']} to measure {_called(one, names)}" for one in kind["measuring"])
        yield f"{kind['device']}: {kind['held']} of {kind['units']} held{measuring}{gone}"
        for node in kind["nodes"]:
            who = ", ".join(f"{_called(one, names)} {one['units']}" for one in node["jobs"])
            if who or node["lost"]:
                yield f"  node {node['node']} of {node['units']}: {who}{' lost' if node['lost'] else ''}"


def _called(held: Mapping[str, Any], names: Mapping[str, str]) -> str:
    return f"{names.get(held['job'], '')} ({held['job']})".strip()
