"""Jobs kept in order from one event to the next, in O(log n) per event.

Between two events nobody's turn changes: a waiting job keeps its rank, and one that runs
can only rise past jobs that did not fit. So a decision starts from the last one and goes
through the queue from one change to the next. With `free` what is left of the GPUs (less
than nothing while more are promised than there are), the next change is the first of

    w, waiting:  gpus(w) <= free + held behind w          starts
    r, running:            0 > free + held behind r          stops

Held behind a job are the GPUs of the running jobs that rank after it. Only the first of
each waiting queue (one for each number of GPUs) is a candidate, since what is left to give
falls along the queue. This is `Ordered.allocate` without looking at those who cannot be
concerned; a property test holds the two together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from cotune.cluster.ordered import Ordered
from cotune.cluster.policy import Active, Rank, rigid_config
from cotune.cluster.running import Running
from cotune.types import Device

_Waiting = tuple[Rank, int, Active]  # rank, token, job


class OrderedQueue:
    """Who waits and who runs, under a policy that is an order, on GPUs that are only counted."""

    rests = True  # nothing is decided while nothing happens

    def __init__(self, policy: Ordered, device: Device, sync: Callable[[Active], None]) -> None:
        self._policy = policy
        self._sync = sync
        self._device = device.name
        self._free = device.count if device.count is not None else 1 << 60
        self._waiting: dict[int, list[_Waiting]] = {}
        self._running = Running(policy)
        self._timers: list[tuple[float, int, int, Active]] = []
        self._suspects: list[_Waiting] | None = []  # the arrivals, or None for anybody
        self._moved: list[Active] = []
        self._turn = 0

    @property
    def busy(self) -> bool:
        return bool(self._running) or any(map(self._head, list(self._waiting)))

    def everybody(self, now: float) -> list[Active]:  # noqa: ARG002  # jobs are brought to the present where they change
        """Return all who are there, by number."""
        waiting = [entry[2] for heap in self._waiting.values() for entry in heap if entry[1] == entry[2].token]
        return sorted([*self._running, *waiting], key=lambda active: active.number)

    def arrive(self, active: Active) -> None:
        active.turn = self._next_turn()
        self._wait(active)

    def end(self, active: Active) -> None:
        """Take out a job that ended, whether it ran or (cancelled) waited."""
        active.token += 1
        if active in self._running:
            self._running.remove(active)
            self._free += active.job.gpus
        self._suspects = None

    def given_up(self, now: float) -> list[Active]:  # noqa: ARG002  # as `Round` is asked
        """Return nobody: an order gives nobody up."""
        return []

    def next_change(self) -> float:
        """Return the next time at which a job changes its level."""
        while self._timers and self._timers[0][2] != self._timers[0][3].token:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else math.inf

    def decide(self, now: float) -> tuple[list[Active], list[Active]]:
        """Return who stops and who starts, in the order of their ranks."""
        self._running.bring_to(now)
        self._relevel(now)
        stops, starts = self._changes() if self._policy.skips else ([], self._from_the_head())
        for active in starts:
            self._run(active)
        # The last to be stopped goes first, so that those stopped keep their order in front of the waiting.
        for active in reversed(stops):
            self._stop(active)
        self._settle()
        self._suspects = []
        return stops, starts

    def _changes(self) -> tuple[list[Active], list[Active]]:
        """Go through the queue from change to change."""
        stops: list[Active] = []
        starts: list[Active] = []
        suspects = self._suspects
        while True:
            first = self._first_fitting(self._heads() if suspects is None else suspects)
            over = self._running.over(-self._free) if self._free < 0 else None
            if first and (over is None or first[0] < over[0]):
                active = first[2]
                self._waiting_pop(active, first)
                starts.append(active)
                self._free -= active.job.gpus
                if suspects is not None:
                    suspects.remove(first)
            elif over:
                self._running.remove(over[1])
                stops.append(over[1])
                self._free += over[1].job.gpus
                suspects = None
            else:
                return stops, starts

    def _first_fitting(self, candidates: Iterable[_Waiting]) -> _Waiting | None:
        free, preempts, running = self._free, self._policy.preempts, self._running
        first: _Waiting | None = None
        for entry in candidates:
            gpus = entry[2].job.gpus
            if (first is None or entry[0] < first[0]) and (
                gpus <= free or (preempts and gpus <= free + running.held_behind(entry[0]))
            ):
                first = entry
        return first

    def _from_the_head(self) -> list[Active]:
        """Return whom a strict order starts: everybody in turn until one does not fit."""
        starts: list[Active] = []
        while (head := min(self._heads(), default=None)) and head[2].job.gpus <= self._free:
            self._waiting_pop(head[2], head)
            starts.append(head[2])
            self._free -= head[2].job.gpus
        return starts

    def _heads(self) -> list[_Waiting]:
        return [head for size in list(self._waiting) if (head := self._head(size))]

    def _head(self, size: int) -> _Waiting | None:
        """Return the first who waits for so many GPUs, forgetting those who left the queue."""
        heap = self._waiting[size]
        while heap and heap[0][1] != heap[0][2].token:
            heappop(heap)
        if heap:
            return heap[0]
        del self._waiting[size]
        return None

    def _waiting_pop(self, active: Active, entry: _Waiting) -> None:
        heap = self._waiting[active.job.gpus]
        if heap[0] is entry:
            heappop(heap)
        active.token += 1

    def _wait(self, active: Active) -> None:
        active.token += 1
        entry = (self._policy.rank(active), active.token, active)
        heappush(self._waiting.setdefault(active.job.gpus, []), entry)
        if self._suspects is not None:
            self._suspects.append(entry)
        self._time(active)

    def _run(self, active: Active) -> None:
        self._sync(active)
        job = active.job
        active.config, active.held = job.wants or rigid_config(job.gpus, job.batch_size, self._device), job.gpus
        active.starts += 1
        active.started = min(active.started, active.synced)
        active.settled = True
        active.turn = self._next_turn()
        active.token += 1
        self._running.add(active)
        self._time(active)

    def _stop(self, active: Active) -> None:
        self._sync(active)
        active.config, active.held = None, 0
        if active.settled:  # one that has just come to its level stays at the end of it
            active.turn = -self._next_turn()
        active.settled = False
        self._wait(active)

    def _next_turn(self) -> int:
        self._turn += 1
        return self._turn

    def _time(self, active: Active) -> None:
        """Remember when a job will change its level."""
        lasts = self._policy.level_lasts(active)
        if lasts < math.inf:
            heappush(self._timers, (active.synced + lasts, active.number, active.token, active))

    def _relevel(self, now: float) -> None:
        """Move every job that has come to another level by now."""
        due = [heappop(self._timers)[3] for _ in iter(lambda: self.next_change() <= now, False)]
        for active in sorted(due, key=lambda active: active.number):
            self._sync(active)
            self._move(active)

    def _move(self, active: Active) -> None:
        """Give a job its new level, behind all who are there already."""
        level = self._policy.level_of(active)
        if level == active.level:
            return
        active.come_to(level)
        active.turn = self._next_turn()
        active.token += 1
        self._suspects = None
        if active.running:
            self._running.remove(active)
            self._running.add(active)
            self._moved.append(active)
            self._time(active)
        else:
            self._wait(active)

    def _settle(self) -> None:
        """Let those who changed level and still run take their place among the running."""
        for active in self._moved:
            if active in self._running:
                self._running.remove(active)
                active.settled = True
                active.turn = self._next_turn()
                self._running.add(active)
        self._moved.clear()
