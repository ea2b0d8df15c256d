"""How busy a cluster is: over time from the starts in the store, and now as Prometheus reads it.

The metrics have a small server on this machine alone: one page of plain text, made when it is asked for.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from sqlalchemy import select

from cotune.cluster.loop import Changes
from cotune.cluster.service.device_types import is_alike
from cotune.cluster.service.documents import cluster_document
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.states import State
from cotune.errors import CotuneError, UsageError
from cotune.store import Store
from cotune.store.schema import samples
from cotune.types import Cluster, Floats

PARTS = 120  # of the time that is looked back on
LONGEST = timedelta(days=7)  # of a start that still reaches into it


def occupancy_over_time(store: Store, cluster: Cluster, seconds: float) -> dict[str, Any]:
    """Return the mean of the units held in each part of the last so many seconds, probes included, by type of device.

    Where all units of a cluster are alike there is one series, whose device is null.
    """
    now = datetime.now(UTC)
    begin = now - timedelta(seconds=seconds)
    since = (begin - LONGEST).isoformat(timespec="seconds")
    own = [samples.c[name] for name in ("started", "seconds", "workers", "servers", "device")]
    query = select(*own).where(samples.c.started >= since)
    rows = store.ask(lambda connection: connection.execute(query).all())
    edges, width = np.arange(PARTS) * seconds / PARTS, seconds / PARTS
    held: dict[str | None, Floats] = defaultdict(lambda: np.zeros(PARTS))
    names = [None] if is_alike(cluster) else [device.name for device in cluster.devices]
    for started, took, workers, servers, device in rows:
        kind = None if is_alike(cluster) else device
        if kind in names:
            from_begin = (datetime.fromisoformat(started) - begin).total_seconds()
            inside = np.minimum(edges + width, from_begin + took) - np.maximum(edges, from_begin)
            held[kind] += (workers + servers) * np.clip(inside, 0.0, width) / width
    return {
        "seconds": seconds,
        "from": begin.isoformat(timespec="seconds"),
        "to": now.isoformat(timespec="seconds"),
        "unit": "units",
        "series": [{"device": name, "held": [round(float(one), 3) for one in held[name]]} for name in names],
    }


TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class DecisionTimes:
    """How long this service's policy took to decide; written by one thread, and read by others."""

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def watch(self, changes: Changes) -> None:
        """Count a decision."""
        if changes.latency is None:
            return
        self.count += 1
        self.seconds += changes.latency
        self.longest = max(self.longest, changes.latency)


def exposition(queue: Queue, decisions: DecisionTimes) -> str:
    """Return the metrics of a queue, and of the service that is asked, in Prometheus's text format."""
    counts, leader = queue.counts(), queue.leader()
    running = queue.jobs(states=[State.RUNNING, State.PROFILING])
    lines = ["# HELP cotune_jobs Submitted jobs by state.", "# TYPE cotune_jobs gauge"]
    lines += [f'cotune_jobs{{state="{state.value}"}} {count}' for state, count in counts.items()]
    alive = leader is not None and leader.is_alive
    lines += _by_device(cluster_document(leader))
    values = {
        ("cotune_up", "gauge", "Whether a service leads on this store."): int(alive),
        ("cotune_term", "counter", "How often a service began to lead."): leader.term if leader else 0,
        ("cotune_slots", "gauge", "Workers there are for all jobs."): leader.about.get("slots", 0) if leader else 0,
        ("cotune_workers", "gauge", "Workers that jobs hold."): sum(job.workers for job in running),
        ("cotune_starts_total", "counter", "Starts of all jobs, probes included."): queue.starts(),
        ("cotune_events_total", "counter", "Changes of state that were written."): queue.last_event(),
        ("cotune_decisions_total", "counter", "Decisions of the policy since this service began."): decisions.count,
        ("cotune_decision_seconds_total", "counter", "What they took together."): f"{decisions.seconds:.6f}",
        ("cotune_decision_seconds_longest", "gauge", "What the slowest of them took."): f"{decisions.longest:.6f}",
    }
    for (name, kind, words), value in values.items():
        lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}", f"{name} {value}"]
    return "\n".join(lines) + "\n"


def _by_device(cluster: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what there is and what is held of each type of device, and on each node."""
    for name, key, words in (
        ("cotune_units", "units", "Units of a type of device."),
        ("cotune_units_held", "held", "Units that jobs hold, running or measured."),
        ("cotune_units_lost", "lost", "Units that an engine has lost."),
    ):
        yield from (f"# HELP {name} {words}", f"# TYPE {name} gauge")
        yield from (f'{name}{{device="{_label(kind["device"])}"}} {kind[key]}' for kind in cluster)
    name = "cotune_node_units_held"
    yield from (f"# HELP {name} Units of a node that running jobs hold.", f"# TYPE {name} gauge")
    for kind in cluster:
        for node in kind["nodes"]:
            held = sum(one["units"] for one in node["jobs"])
            yield f'{name}{{device="{_label(kind["device"])}",node="{node["node"]}"}} {held}'


def _label(word: str) -> str:
    """Return a word as the value of a label."""
    return word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@contextmanager
def metrics_server(read: Callable[[], str], port: int | None) -> Iterator[None]:
    """Answer GET /metrics on the loopback while the block runs; nothing where no port is asked for."""
    if port is None:
        yield
        return

    class _Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404)
                return
            try:
                body = read().encode()
            except CotuneError as error:
                self.send_error(503, str(error)[:200])
                return
            self.send_response(200)
            self.send_header("Content-Type", TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: the log is the service's."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _Page)
    except OSError as error:
        raise UsageError(f"port {port} for the metrics cannot be had: {error.strerror}") from None
    threading.Thread(target=server.serve_forever, daemon=True, name="metrics").start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
