"""On which units a job may be measured now: those that are free, and those of jobs that lose nothing by it.

    free units ─▶ enough? measured on them
         └─ else also the units of running jobs of no higher priority that came to a checkpoint since they were started
              └─ else it waits, and what comes free next is kept for it

The policy says who makes room, the lowest priority first. So units are taken from the jobs of a type only where each
of them that might be stopped has a checkpoint to resume from.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from cotune.checkpoints import has_checkpoint, trained
from cotune.cluster.policy import capacity, less
from cotune.cluster.service.device_types import types_of
from cotune.cluster.service.live_job import LiveJob
from cotune.jobfile.settings import Settings
from cotune.types import Cluster


@dataclass(frozen=True, slots=True)
class MeasuringNeed:
    """What measuring a job takes of each type of device that it may have: so many units at least, and at most."""

    kinds: tuple[str, ...]
    least: int
    most: int

    @classmethod
    def of(cls, settings: Settings, cluster: Cluster) -> Self:
        """Return what a job needs: workers and servers of its smallest config, and of its widest."""
        named = {axis.name: axis.values for axis in settings.space.axes if axis.name in ("workers", "servers")}
        axes = {name: [value for value in values if isinstance(value, int)] for name, values in named.items()}
        least = sum(min(values) for values in axes.values())
        most = sum(max(values) for values in axes.values()) if "workers" in axes else sys.maxsize
        return cls(types_of(settings, cluster), max(least, 1), most)


@dataclass(frozen=True, slots=True)
class HeldUnits:
    """What a running job holds of one type, and whether it could resume from where it is."""

    kind: str
    units: int
    priority: int
    can_go_on: bool

    @classmethod
    def of(cls, job: LiveJob) -> Self | None:
        """Return what a job holds; nothing where nothing of it runs."""
        active, growing = job.active, job.growing
        if active.config is None or growing is None:
            return None
        further = trained(growing.sample) > growing.launch.trained  # else it would be stopped as often as it starts
        return cls(active.config.device, active.held, active.job.priority, further and has_checkpoint(job.folder))


@dataclass(frozen=True, slots=True)
class MeasuringRoom:
    """A cluster as measuring finds it: the units there are of each type, those that are free, and who holds others."""

    there: Mapping[str, int]
    free: Mapping[str, int]
    held: Sequence[HeldUnits]
    crowded: bool  # others wait for workers: no more is taken than half of all

    @classmethod
    def of(
        cls, cluster: Cluster, reserved: Mapping[str, int], jobs: Iterable[LiveJob], *, crowded: bool = False
    ) -> Self:
        """Return the room beside some jobs, and beside what is set aside for measuring already."""
        held = [found for job in jobs if (found := HeldUnits.of(job)) is not None]
        left = less(cluster, reserved)
        for one in held:
            left = less(left, {one.kind: one.units})
        return cls(capacity(cluster), capacity(left), held, crowded)

    def units(self, need: MeasuringNeed, priority: int) -> dict[str, int] | None:
        """Return the units of each type on which a job is measured; nothing where it has to wait."""
        found = {}
        for kind in need.kinds:
            half = -(-self.there[kind] // 2)
            wanted = half if self.crowded else max(self.free[kind], half)
            found[kind] = min(max(wanted, need.least), need.most, self.free[kind] + self._may_be_taken(kind, priority))
        enough = all(units >= min(need.least, self.there[kind]) > 0 for kind, units in found.items())
        return found if enough else None

    def _may_be_taken(self, kind: str, priority: int) -> int:
        lower = [one for one in self.held if one.kind == kind and one.priority <= priority]
        return sum(one.units for one in lower) if all(one.can_go_on for one in lower) else 0

    def without(self, taken: Mapping[str, int]) -> MeasuringRoom:
        """Return what is left for the next; once running jobs make room, nothing more is taken from them."""
        left = {kind: units - taken.get(kind, 0) for kind, units in self.free.items()}
        held = () if min(left.values(), default=0) < 0 else self.held
        return replace(self, free={kind: max(units, 0) for kind, units in left.items()}, held=held)


@dataclass(frozen=True, slots=True)
class MeasuringClaim:
    """The units that the next job to be measured waits for: they are kept for it as they come free."""

    job: str
    priority: int
    units: Mapping[str, int]
