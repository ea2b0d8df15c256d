"""`cotune serve` as a service: wait to lead, take over, and run the jobs of the queue until it is stopped.

    take the lease ─▶ put back what another left ─▶ drive(policy, live world) ─▶ SIGTERM: checkpoint, put back, release

A leader that has lost its lease ends its workers and waits again. A second service on the same store waits from the
beginning, and leads within ten seconds of the first one's death.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import delete, false

from cotune import __version__
from cotune.cluster.loop import drive
from cotune.cluster.policy import capacity
from cotune.cluster.service.cluster_in_use import ClusterInUse
from cotune.cluster.service.device_types import alike
from cotune.cluster.service.dispatcher import Dispatcher
from cotune.cluster.service.documents import leader_document
from cotune.cluster.service.job_files import tidy_ended
from cotune.cluster.service.leadership import Leadership, NoLongerLeading
from cotune.cluster.service.live import LiveWorld
from cotune.cluster.service.live_job import LiveJob
from cotune.cluster.service.preparation import Preparers
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queue_journal import Log
from cotune.cluster.service.routing import RoutedEngines
from cotune.cluster.service.rules import ServiceRules
from cotune.cluster.service.states import FINAL
from cotune.cluster.service.usage import DecisionTimes, exposition, metrics_server
from cotune.errors import CotuneError
from cotune.identity import timestamp
from cotune.run.launch import Launch
from cotune.store import Store, open_store, rows, schema
from cotune.store.location import absolute, locate
from cotune.store.schema import leaders
from cotune.store.spool import OutagePolicy
from cotune.types import Cluster

_FOREVER = OutagePolicy(patience=1e9)  # a service waits for its database, and its jobs go on meanwhile
_RETRY_SECONDS = 0.5  # between two tries to lead
_TIDY_SECONDS = 600.0
_SAY_SECONDS = 1.0  # between two words of who holds what
_PAUSE = 1.0  # seconds after something unexpected, before the queue is taken up again


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How a queue is served."""

    policy: str | None = None  # put into the rules when it begins to lead; as they are
    cluster: Cluster | None = None  # the units there are for all jobs; the cores of this machine
    placement: str | None = None  # by which rule nodes are chosen, where the cluster has nodes
    profilers: int = 1  # jobs that are measured at a time
    drain: bool = False  # end when no job is left
    keep: float | None = None  # seconds for which ended jobs keep their files; for ever
    keep_bytes: float | None = None  # that files of ended jobs may take together; without limit
    metrics: int | None = None  # port on this machine for Prometheus

    @property
    def whole(self) -> Cluster:
        return self.cluster or alike(len(os.sched_getaffinity(0)))

    @property
    def size(self) -> int:
        return sum(capacity(self.whole).values())


def log(event: str, **facts: Any) -> None:
    """Write a line: JSON for a log, words for a terminal."""
    if sys.stderr.isatty():
        words = " ".join(f"{name}={value}" for name, value in facts.items())
        line = f"{time.strftime('%H:%M:%S')} {event} {words}"
    else:
        line = json.dumps({"at": timestamp(), "event": event, **facts}, default=str)
    print(line, file=sys.stderr, flush=True)


class Service:
    """One process that serves a store's queue while it leads; setting `closing` ends it."""

    def __init__(self, url: str | None, options: ServiceOptions, log: Log = log) -> None:
        self._url = absolute(locate(url, Path()))  # jobs are prepared in folders of their own
        self._options, self._log = options, log
        ServiceRules().changed(options.policy)  # what is wrong is said now, and not when the first job comes
        ClusterInUse(options.whole, options.placement)
        self.closing = threading.Event()
        self._tidied = self._said = -math.inf
        self._decisions = DecisionTimes()

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C; jobs that run are stopped at their checkpoints, and kept."""
        about: dict[str, Any] = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "slots": self._options.size,
            "drain": self._options.drain,
            "cluster": rows.of_record(self._options.whole),
            "version": __version__,
            "since": timestamp(),
        }
        with (
            Store(self._url, _FOREVER) as store,
            Store(self._url, _FOREVER) as lease,
            metrics_server(lambda: exposition(Queue(lease), self._decisions), self._options.metrics),
            self._stopping_on_signals(),
        ):
            about["policy"] = self._options.policy or Queue(store).rules().policy
            self._log("up", store=store.label, **about)
            while (leadership := self._take(lease, about)) is not None:
                self._log("leading", term=leadership.term)
                self._lead(store, leadership)
            self._log("down")

    def _take(self, lease: Store, about: dict[str, Any]) -> Leadership | None:
        """Wait until this service leads; nothing if it is told to stop before."""
        said, leadership = None, Leadership(lease, about)
        while not self.closing.is_set():
            event, words = "waiting", "another service leads on this store"
            try:
                if leadership.take():
                    return leadership
            except CotuneError as error:  # as where a leader hangs in the middle of a transaction of SQLite
                event, words = "trouble", str(error)
            if words != said:
                self._log(event, words=words)
            said = words
            self.closing.wait(_RETRY_SECONDS)
        return None

    def _lead(self, store: Store, leadership: Leadership) -> None:
        try:
            self._work_off(store, leadership)
        except NoLongerLeading as error:
            self._log("lost", words=str(error))
        except CotuneError as error:  # its jobs are put back, and the queue is taken up again
            self._log("trouble", words=str(error))
            self.closing.wait(_PAUSE)
        finally:
            leadership.release()

    def _work_off(self, store: Store, leadership: Leadership) -> None:
        options, queue = self._options, Queue(store, leadership.term)
        url = self._url.render_as_string(hide_password=False)
        queue.change_rules(options.policy, by="cotune serve")
        preparers = Preparers(url, leadership.term, options.profilers)
        cluster = ClusterInUse(options.whole, options.placement)

        def engine_of(launch: Launch) -> tuple[str, Any]:
            return dispatcher.engine_of(launch.folder)

        def arrivals(_: float) -> list[LiveJob] | None:
            if leadership.is_lost:
                raise NoLongerLeading("another service leads")
            if self.closing.is_set() or (options.drain and dispatcher.is_idle):
                self.closing.set()
                preparers.close()
                world.halt("the service is going down")
                return None
            self._tidy(queue)
            if time.monotonic() >= self._said + _SAY_SECONDS:
                self._said, present = time.monotonic(), rows.of_record(cluster.present)
                leadership.say(
                    policy=dispatcher.rules.policy, slots=cluster.units, cluster=present, occupancy=dispatcher.occupancy
                )
            return dispatcher.arrivals()

        try:
            with RoutedEngines(engine_of) as engines:
                dispatcher = Dispatcher(queue, preparers, engines, cluster=cluster, log=self._log)
                self._log("rules", **dispatcher.rules.document())
                world = LiveWorld(engines, arrivals, store.save, journal=dispatcher.journal, placer=cluster.placer)
                dispatcher.begin(world)
                watch, in_force = self._decisions.watch, lambda: dispatcher.in_force
                for active in drive(dispatcher.policy, cluster.whole, world, cluster.placer, watch, in_force=in_force):
                    dispatcher.left(active)
        finally:
            preparers.close()
        dispatcher.end()

    def _tidy(self, queue: Queue) -> None:
        """Remove what jobs left that ended long ago, now and then."""
        options = self._options
        if (options.keep is None and options.keep_bytes is None) or time.monotonic() < self._tidied + _TIDY_SECONDS:
            return
        self._tidied = time.monotonic()
        removed = tidy_ended(queue, options.keep, options.keep_bytes)
        if removed:
            self._log("tidied", jobs=removed)

    @contextmanager
    def _stopping_on_signals(self) -> Iterator[None]:
        """Note SIGTERM and Ctrl-C instead of ending at once; a second one ends at once."""

        def stop(number: int, _: object) -> None:
            if self.closing.is_set():
                os._exit(128 + number)
            self._log("stopping", signal=signal.Signals(number).name)
            self.closing.set()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def checked(url: str | None, options: ServiceOptions) -> dict[str, Any]:
    """Return what a service would work with, or raise what keeps it from starting."""
    with open_store(url, Path()) as store:
        store.transact(lambda connection: connection.execute(delete(leaders).where(false())))  # may it be written?
        queue = Queue(store)
        counts, leader = queue.counts(), queue.leader()
        rules = queue.rules().changed(options.policy)
        return {
            "store": store.label,
            "version": schema.VERSION,
            "policy": rules.policy,
            "slots": options.size,
            "open": sum(count for state, count in counts.items() if state not in FINAL),
            "leader": leader_document(leader) if leader and leader.is_alive else None,
        }
