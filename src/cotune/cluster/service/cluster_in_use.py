"""The cluster of a service as it is now: what is there, who holds what on which node, and what is lost for a while.

Nodes that an engine no longer has are given to nobody until it has them again. An engine tells how many workers it
holds and not which node is gone, so a node on which the job stood that noticed is taken for the lost one. It is asked
when a job loses workers, and then until all of them are back:

    units of a type = workers that the engine of the job holds when nothing else runs there
                    + what jobs of other engines hold of that type
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotune.cluster.node_packing import OnNodes, placer
from cotune.cluster.policy import Active, capacity, less
from cotune.errors import CotuneError
from cotune.types import Cluster

ClusterDocument = list[dict[str, Any]]
LOOK_SECONDS = 5.0  # between two questions whether lost units are back


class ClusterInUse:
    """A cluster as it was given, the nodes of its jobs by a placement rule, and what of it is lost."""

    def __init__(self, cluster: Cluster, rule: str | None = None) -> None:
        self.whole = cluster
        self.placer = placer(rule, cluster)
        self._gone: Counter[str] = Counter()  # units, by type
        self._closed: dict[str, list[int]] = {}  # nodes, by type

    @property
    def present(self) -> Cluster:
        """Return what is there now."""
        return less(self.whole, self._gone)

    @property
    def units(self) -> int:
        """Return how many units are there now, of all types."""
        return sum(capacity(self.present).values())

    @property
    def smaller(self) -> set[str]:
        """Return the types of which something is lost."""
        return {kind for kind, units in self._gone.items() if units}

    def has(self, kind: str, units: int, witness: Active | None = None) -> bool:
        """Take in that so many units of a type are there; say whether that is news. A witness stood on what is lost."""
        there = capacity(self.present)[kind]
        units = max(min(units, capacity(self.whole)[kind]), 0)
        if units == there:
            return False
        if not isinstance(self.placer, OnNodes):
            self._gone[kind] += there - units
        elif units < there:
            self._close(self.placer, kind, there - units, witness)
        else:
            self._open(self.placer, kind, units - there)
        return capacity(self.present)[kind] != there

    def document(self, jobs: Iterable[Active], measuring: Sequence[tuple[str, str, int]]) -> ClusterDocument:
        """Return every type with its units, and every node with who holds how much of it.

        `measuring` are jobs that are measured, with a type and the units set aside for them: they are counted, and
        not placed.
        """
        holders, there = list(jobs), capacity(self.present)
        types: ClusterDocument = []
        for device in self.whole.devices:
            own = [job for job in holders if job.config is not None and job.config.device == device.name]
            aside = [{"job": id, "units": units} for id, kind, units in measuring if kind == device.name]
            held = sum(job.held for job in own) + sum(units for _, kind, units in measuring if kind == device.name)
            types.append(
                {
                    "device": device.name,
                    "units": device.count or 0,
                    "lost": (device.count or 0) - there[device.name],
                    "held": held,
                    "measuring": aside,
                    "nodes": self._nodes(device.name, own),
                }
            )
        return types

    def _nodes(self, kind: str, own: Iterable[Active]) -> list[dict[str, Any]]:
        if not isinstance(self.placer, OnNodes):
            return []
        found: list[dict[str, Any]] = [
            {"node": node, "units": size, "lost": node in self._closed.get(kind, ()), "jobs": []}
            for node, size in enumerate(self.placer.sizes(kind))
        ]
        for job in own:
            for node, units in self.placer.held(job):
                found[node]["jobs"].append({"job": job.job.name, "units": units})
        return found

    def _close(self, nodes: OnNodes, kind: str, units: int, witness: Active | None) -> None:
        sizes, closed = nodes.sizes(kind), self._closed.setdefault(kind, [])
        stood = [node for node, _ in nodes.held(witness)] if witness is not None else []
        for node in dict.fromkeys([*reversed(stood), *reversed(range(len(sizes)))]):
            if units <= 0:
                return
            if node not in closed:
                nodes.close(kind, node)
                closed.append(node)
                self._gone[kind] += sizes[node]
                units -= sizes[node]

    def _open(self, nodes: OnNodes, kind: str, units: int) -> None:
        sizes, closed = nodes.sizes(kind), self._closed.get(kind, [])
        while closed and units >= sizes[closed[-1]]:
            node = closed.pop()
            nodes.open(kind, node)
            self._gone[kind] -= sizes[node]
            units -= sizes[node]


@dataclass(frozen=True, slots=True)
class EngineDevice:
    """A device of an engine, as the job calls it that runs there."""

    engine: str
    settings: Mapping[str, Any]
    device: str


Room = Callable[[EngineDevice], int | None]
Elsewhere = Callable[[str, str], int]


class LostUnits:
    """Which types of a cluster are short of units, and whom to ask for them."""

    def __init__(self, cluster: ClusterInUse, room: Room, elsewhere: Elsewhere) -> None:
        """Ask `room` how many workers an engine holds, `elsewhere` what others than an engine hold of a type."""
        self._cluster, self._room, self._elsewhere = cluster, room, elsewhere
        self._asked: dict[str, EngineDevice] = {}  # by type
        self._looked = time.monotonic()

    def noticed_by(self, active: Active, where: EngineDevice) -> bool:
        """Take in that a job has lost workers; say whether units are lost with them."""
        assert active.config is not None
        kind = active.config.device
        there = self._there(kind, where)
        if there is None or not self._cluster.has(kind, there, active):
            return False
        self._asked[kind] = where
        return True

    def came_back(self) -> bool:
        """Ask now and then whether lost units are there again; say whether some are."""
        now = time.monotonic()
        if not self._asked or now < self._looked + LOOK_SECONDS:
            return False
        self._looked, news = now, False
        for kind, where in list(self._asked.items()):
            there = self._there(kind, where)
            news |= there is not None and self._cluster.has(kind, there)
            if kind not in self._cluster.smaller:
                del self._asked[kind]
        return news

    def _there(self, kind: str, where: EngineDevice) -> int | None:
        try:
            room = self._room(where)
        except CotuneError:  # the engine is away as a whole: nothing is known
            return None
        return None if room is None else room + self._elsewhere(kind, where.engine)
