"""What jobs with deadlines were promised at one moment: what that leaves free, and what each can still be promised.

Every decision of `joint` opens one: whether a newcomer is promised room (`admission`), and what everybody holds from
now on (`allocation`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cotune.cluster.candidates import Candidates, Ladder, Stamp
from cotune.cluster.policy import Active, Promise, capacity
from cotune.cluster.promises import MOMENT, TIGHT, Room, start_cost, start_seconds, trimmed
from cotune.types import Cluster

if TYPE_CHECKING:
    from cotune.cluster.policies.joint import Joint


class Ledger:
    """The jobs at one moment, their promises, and the room beside them."""

    def __init__(self, terms: Joint, active: Sequence[Active], cluster: Cluster, new: Active | None = None) -> None:
        """Take all jobs that are there; `new` is the one among them that has just come and is to be promised room."""
        self.terms, self.cluster = terms, cluster
        self.there = capacity(cluster)
        self.urgent = [job for job in active if job.job.deadline is not None]
        alike = len(self.urgent) == len(active)
        self.patient = [] if alike else [job for job in active if job.job.deadline is None]
        self._new = new
        self._rooms: dict[str, Room] = {}
        self._revising = False  # whether promises are made as small as they have become
        self._known: dict[Active, Candidates] = {}
        self._asked: list[float] = []
        self._lacking: list[Active] | None = None  # who had no promise when that was first asked

    def revise(self) -> None:
        """Look at all promises again, and from now on make each as small as it has become."""
        self._rooms, self._revising = {}, True

    def candidates(self, job: Active) -> Candidates:
        """Return what a job can run in, as it stands now."""
        known = job.candidates
        unchanged = known is not None and known.done == job.done and known.config is job.config
        if known is not None and unchanged and not job.spread and not known.margin:  # the usual case, quickly
            return known
        known = self._known.get(job)
        if known is None:
            certain = job is self._new or (job.promise is not None and job.promise.firm)
            known = self._known[job] = self.terms.candidates(job, self.cluster, certain=certain)
        return known

    def ladder(self, job: Active, promise: Promise) -> Ladder:
        """Return what a job can run in where it was promised room."""
        return self.candidates(job).on(promise.device)

    def cheapest(self, job: Active) -> tuple[Ladder, int]:
        """Return the cheapest config in which a job ends in time, or the fastest if none does."""
        known, promise, limit = job.candidates, job.promise, job.deadline_left - MOMENT + TIGHT
        if known is not None and len(known.ladders) == 1 and len(known.ladders[0].units) == 1:
            return known.ladders[0], 0
        ladders = self.candidates(job).ladders if promise is None else (self.ladder(job, promise),)
        if limit > 0:
            in_time = [
                (ladder.cost(row), place, row)
                for place, ladder in enumerate(ladders)
                for row, seconds in enumerate(ladder.sure)
                if seconds + start_seconds(job, ladder, row) <= limit
            ]
            if in_time:
                _, place, row = min(in_time)
                return ladders[place], row
        rows = [(ladder, row) for ladder in ladders for row in range(len(ladder.units))]
        return min(rows, key=lambda one: one[0].sure[one[1]] if limit > 0 else one[0].cost(one[1]))

    def price(self, job: Active) -> float:
        """Return what a job still costs in the cheapest config that ends in time."""
        if not self.candidates(job).ladders:
            return math.inf
        ladder, row = self.cheapest(job)
        return ladder.cost(row)

    def offer(self, new: Active) -> Promise | None:
        """Return what can be promised to a job beside all others; nothing where it would crowd them out."""
        return None if self.crowds_out(new) else self.fit(new)

    def crowds_out(self, new: Active) -> bool:
        """Return whether others wait, and a job takes a large part of what is left and is larger than most."""
        if not self.others_wait(new):
            return False
        ladder, row = self.cheapest(new)
        cost = ladder.units[row] * ladder.sure[row]
        if cost <= self.terms.widest * self.room(ladder.device).left(new.synced + new.deadline_left):
            return False
        self._asked = self._asked or sorted([job.job.gpus * job.total for job in self.urgent])
        return cost > _median_without(self._asked, new.job.gpus * new.total)

    def others_wait(self, new: Active) -> bool:
        """Return whether others than a job have no promise."""
        if self._lacking is None:
            self._lacking = [job for job in self.urgent if job.promise is None]
        return any(job.promise is None for job in self._lacking if job is not new)

    def fit(self, job: Active, rooms: Mapping[str, Room] | None = None) -> Promise | None:
        """Return the cheapest promise there is room for, beside all others' or in other rooms."""
        until = job.synced + job.deadline_left - MOMENT
        found = []
        for ladder in self.candidates(job).ladders:
            room = rooms[ladder.device] if rooms else self.room(ladder.device)
            promise = room.latest(ladder, until, start_cost(job, ladder))
            if promise is not None:
                found.append((ladder.price * promise.held(job.synced, until), promise))
        return min(found, key=lambda one: one[0])[1] if found else None

    def room(self, device: str) -> Room:
        """Return what promises leave of a device, each as small as it has become."""
        if device not in self._rooms:
            holders = [(job, job.promise) for job in self.urgent if job.promise is not None]
            promises = [self.revised(*one) if self._revising else one[1] for one in holders]
            kept = [promise for promise in promises if promise.device == device]
            self._rooms[device] = Room(self.urgent[0].synced, self.there[device], kept)
        return self._rooms[device]

    def revised(self, job: Active, promise: Promise, *, extend: bool = False) -> Promise:
        """Return a promise as far as it is still needed; one that has become too small is made anew."""
        if job.config is None:
            return promise
        known = self.candidates(job)
        before, now = known.revised, job.synced
        if before is not None and before.promise is promise and before.at == now and before.config is job.config:
            return promise
        ladder = known.on(promise.device)
        enough = trimmed(promise, ladder, now, start_cost(job, ladder))
        if enough is not None:
            known.revised = Stamp(enough, job.config, now)
        elif extend:
            enough = self._extended(job, promise)
        job.promise = enough or promise
        return job.promise

    def _extended(self, job: Active, promise: Promise) -> Promise:
        self.room(promise.device).give_back(promise)
        found = self.fit(job)
        extended = promise if found is None else found._replace(firm=promise.firm)
        self.room(extended.device).take(extended)
        return extended


def _median_without(ordered: Sequence[float], value: float) -> float:
    """Return the median of some ordered numbers but one."""
    out, left = bisect_left(ordered, value), len(ordered) - 1
    pick = [ordered[place + (place >= out)] for place in ((left - 1) // 2, left // 2)]
    return sum(pick) / 2
