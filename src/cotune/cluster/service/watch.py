"""Submitted jobs watched to their ends, with a service of their own where none leads their store."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cotune.cluster.service.daemon import Service, ServiceOptions
from cotune.cluster.service.device_types import alike
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueueEvent
from cotune.cluster.service.states import FINAL, State
from cotune.display import note
from cotune.errors import CotuneError, EngineError, Infeasible, Interrupted, Missed
from cotune.store import open_store

PAUSE = 0.3  # seconds between two looks at the queue
ERRORS: dict[State, type[CotuneError]] = {  # the worst first
    State.FAILED: EngineError,
    State.MISSED: Missed,
    State.DECLINED: Infeasible,
    State.CANCELLED: Interrupted,
}
Show = Callable[[QueueEvent], None]


def exit_code(states: Iterable[State]) -> int:
    """Return the exit code of the worst of some ended jobs; 0 where all met their goals or are done."""
    found = set(states)
    return next((error.exit_code for state, error in ERRORS.items() if state in found), 0)


def watch(queue: Queue, ids: Collection[str], after: int, show: Show, halted: Callable[[], bool]) -> None:
    """Show what happens to jobs after an event, until all of them have ended or somebody halts it."""
    remaining = set(ids)
    while remaining and not halted():
        for event in queue.events(after=after):
            after = event.number
            if event.job in ids:
                show(event)
            if event.state in FINAL:
                remaining.discard(event.job)
        time.sleep(PAUSE)


def is_served(queue: Queue) -> bool:
    """Say whether a service leads a store, or led it last and is expected to be started again."""
    leader = queue.leader()
    return leader is not None and (leader.is_alive or not leader.about.get("drain", False))


def serve_and_watch(url: str | None, slots: int | None, ids: Collection[str], after: int, show: Show) -> None:
    """Serve a store's queue until no job is left, or until SIGTERM or Ctrl-C, and show what happens to some jobs."""
    cluster = alike(slots) if slots else None
    service = Service(url, ServiceOptions(cluster=cluster, drain=True), log=_troubles)

    def watching() -> None:
        with open_store(url) as store:
            watch(Queue(store), ids, after, show, service.closing.is_set)

    with ThreadPoolExecutor(1) as pool:
        watched = pool.submit(watching)
        try:
            service.run()
        finally:
            service.closing.set()
    watched.result()


def _troubles(event: str, **facts: Any) -> None:
    """Show what a service writes into its log beside what happens to jobs."""
    if event in ("waiting", "trouble", "lost"):
        note(f"service: {facts['words']}")
