"""Nodes that fail and come back, the same ones at the same times under every policy.

Each node works for a time drawn from an exponential distribution of mean `mtbf`, is down for `repair` seconds, and so
on; its draws come from a generator of its own. A job on a node that fails loses its GPUs on all nodes and what it did
since its last checkpoint, of which it makes one every `checkpoint` seconds of work; it then waits like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from heapq import heapify, heappop, heappush

import numpy as np

from cotune.cluster.node_packing import OnNodes, Placer
from cotune.cluster.policy import Active, less
from cotune.errors import UsageError, suggestion
from cotune.types import Cluster
from cotune.units import seconds

_EXAMPLE = "write --failures mtbf=30d,repair=4h, or with checkpoint=30m"


@dataclass(frozen=True)
class Failures:
    """How often a node fails, how long it is away, and how often jobs make checkpoints; all in seconds."""

    mtbf: float
    repair: float
    checkpoint: float = 1800.0

    @classmethod
    def parse(cls, text: str) -> Failures:
        """Return what 'mtbf=30d,repair=4h' says."""
        known = [one.name for one in fields(cls)]
        given: dict[str, float] = {}
        for entry in text.split(","):
            name, equals, value = (part.strip() for part in entry.partition("="))
            if not equals or name not in known:
                raise UsageError(f"cannot read --failures {text!r}{suggestion(name, known)}; {_EXAMPLE}")
            given[name] = seconds(value)
        if not {"mtbf", "repair"} <= set(given):
            raise UsageError(f"--failures {text} needs both mtbf and repair; {_EXAMPLE}")
        return cls(**given)


@dataclass
class Outages:
    """Which nodes are down as time passes."""

    failures: Failures
    cluster: Cluster
    placer: OnNodes
    seed: int = 0
    failed: int = 0  # nodes, so far
    stopped: int = 0  # jobs
    lost: float = 0.0  # GPU-seconds of work that had not been saved
    _events: list[tuple[float, str, int]] = field(default_factory=list)
    _down: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        nodes = [(device, node) for device, free in self.placer.free.items() for node in range(len(free))]
        self._sizes = {(device, node): int(self.placer.free[device][node]) for device, node in nodes}
        self._draws = {
            place: np.random.default_rng((self.seed, number)) for number, place in enumerate(nodes)
        }  # a node's own, so that no policy changes when it fails
        self._events = [(self._works(place), *place) for place in nodes]
        heapify(self._events)

    def _works(self, place: tuple[str, int]) -> float:
        return float(self._draws[place].exponential(self.failures.mtbf))

    @property
    def next_at(self) -> float:
        return self._events[0][0]

    def turn(self, now: float) -> list[Active]:
        """Let the nodes fail or come back whose time has come; return who stood on those that failed."""
        struck: dict[int, Active] = {}
        while self._events[0][0] <= now:
            at, device, node = heappop(self._events)
            place = device, node
            if place in self._down:
                self._down.remove(place)
                self.placer.open(device, node)
                heappush(self._events, (at + self._works(place), device, node))
                continue
            self._down.add(place)
            self.failed += 1
            struck |= {active.number: active for active in self.placer.close(device, node)}
            heappush(self._events, (at + self.failures.repair, device, node))
        return list(struck.values())

    def count(self, active: Active, lost: float) -> None:
        """Count a job that was stopped, and the seconds of its work that are lost."""
        self.stopped += 1
        self.lost += lost * active.held

    def there(self) -> Cluster:
        """Return the cluster without the nodes that are down."""
        away: Counter[str] = Counter()
        for place in self._down:
            away[place[0]] += self._sizes[place]
        return less(self.cluster, away)

    def document(self) -> Mapping[str, float]:
        """Return what happened."""
        return {"nodes_failed": self.failed, "jobs_stopped": self.stopped, "lost_gpu_seconds": self.lost}


def outages(failures: Failures | None, cluster: Cluster, placer: Placer, seed: int) -> Outages | None:
    """Return the outages of one simulation, or None where nothing fails."""
    if failures is None:
        return None
    if not isinstance(placer, OnNodes):
        raise UsageError("--failures needs nodes that can fail: a cluster 13x8 (nodes x GPUs), or per_node in its file")
    return Outages(failures, cluster, placer, seed)
