"""The running jobs in order of rank, although the ranks of some fall while they run.

A rank whose first part falls by `drift` a second is kept as it would be at time 0,

    anchor = rank(at t) + drift * t

which does not change, so that jobs of equal drift stay sorted for good. One sorted list for
each drift is enough: under srtf there is one, under srsf one for each number of GPUs.
A job that is still restarting does not drift, and stands in the list of drift 0 meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter

from cotune.cluster.ordered import Ordered
from cotune.cluster.policy import Active, Rank


class _Sorted:
    """Jobs of one drift: three lists in step, so that GPUs are summed by slices."""

    __slots__ = ("actives", "anchors", "gpus")

    def __init__(self) -> None:
        self.anchors: list[Rank] = []
        self.gpus: list[int] = []
        self.actives: list[Active] = []

    def add(self, anchor: Rank, active: Active) -> None:
        place = bisect_left(self.anchors, anchor)
        self.anchors.insert(place, anchor)
        self.gpus.insert(place, active.job.gpus)
        self.actives.insert(place, active)

    def remove(self, anchor: Rank) -> None:
        place = bisect_left(self.anchors, anchor)
        del self.anchors[place], self.gpus[place], self.actives[place]


class Running:
    """The running jobs; ranks are those of the time it was last brought to."""

    def __init__(self, policy: Ordered) -> None:
        self._policy = policy
        self._by_drift: dict[float, _Sorted] = {}
        self._where: dict[int, tuple[float, Rank]] = {}
        self._restarting: list[Active] = []
        self._now = 0.0

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, active: Active) -> bool:
        return active.number in self._where

    def __iter__(self) -> Iterator[Active]:
        return (active for jobs in self._by_drift.values() for active in jobs.actives)

    def bring_to(self, now: float) -> None:
        """Let time pass: jobs that got to work begin to drift."""
        self._now = now
        if not self._restarting:
            return
        still: list[Active] = []
        for active in self._restarting:
            where = self._where.get(active.number)
            if where is None or where[0]:
                continue
            if active.ready > now:
                still.append(active)
                continue
            rank = where[1]
            self.remove(active)
            self._put(active, rank, self._policy.drift(active), active.ready)
        self._restarting = still

    def add(self, active: Active) -> None:
        """Add a job at its rank of now."""
        self._put(active, self._policy.rank(active), 0.0, 0.0)
        if self._policy.drift(active):
            self._restarting.append(active)

    def _put(self, active: Active, rank: Rank, drift: float, since: float) -> None:
        anchor = (rank[0] + drift * since, *rank[1:]) if drift else rank
        self._where[active.number] = drift, anchor
        if drift not in self._by_drift:
            self._by_drift[drift] = _Sorted()
        self._by_drift[drift].add(anchor, active)

    def remove(self, active: Active) -> None:
        drift, anchor = self._where.pop(active.number)
        self._by_drift[drift].remove(anchor)

    def held_behind(self, rank: Rank) -> int:
        """Return the GPUs held by jobs behind a rank."""
        held = 0
        for drift, jobs in self._by_drift.items():
            anchor = (rank[0] + drift * self._now, *rank[1:]) if drift else rank
            place = bisect_right(jobs.anchors, anchor)
            if place < len(jobs.gpus):
                held += sum(jobs.gpus[place:])
        return held

    def over(self, gpus: int) -> tuple[Rank, Active] | None:
        """Return the first job, with its rank, behind which fewer GPUs are held than so many."""
        tail: list[tuple[Rank, Active]] = []
        for drift, jobs in self._by_drift.items():
            held, place = 0, len(jobs.gpus)
            while place and held < gpus:
                place -= 1
                held += jobs.gpus[place]
                anchor = jobs.anchors[place]
                tail.append(((anchor[0] - drift * self._now, *anchor[1:]), jobs.actives[place]))
        tail.sort(key=itemgetter(0), reverse=True)
        held = 0
        first: tuple[Rank, Active] | None = None
        for entry in tail:
            if held >= gpus:
                break
            first = entry
            held += entry[1].job.gpus
        return first
