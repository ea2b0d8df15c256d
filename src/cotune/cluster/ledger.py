"""What jobs with deadlines were promised at one moment: what that leaves free, and what each can still be promised.

Every decision of `joint` opens one: whether a newcomer is promised room (`admit`), and what everybody holds from now on
(`allocation`). To admit a newcomer means

    room beside all others ─▶ promised
      └─ else, where nobody else waits, all promises laid anew, the widest first
           └─ else the dearest promises that are not firm taken back, one after the other
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotune.bounds import Count, Fraction, NotNegative, Positive
from cotune.cluster.candidates import Candidates, Ladder, Stamp, candidates_of
from cotune.cluster.policy import Active, Promise, capacity
from cotune.cluster.promises import MOMENT, TIGHT, Room, start_cost, start_seconds, trimmed
from cotune.types import Cluster


@dataclass(frozen=True)
class PromiseTerms:
    """On which terms room is promised: the settings of `joint`, which explains them."""

    sure: NotNegative = 2.75
    most: Fraction = 0.35
    fair: NotNegative = 0.5
    hope: NotNegative = 1.0  # standard deviations by which a job may be quicker than believed, before it is given up
    slack: NotNegative = 0.3
    widest: Fraction = 1 / 2
    firm: Fraction = 1 / 3
    worth: Positive = 1.0
    revoked: Count = 64  # promises that are taken back for one newcomer, at most
    look: Positive = 0.01

    def margin(self, spread: float) -> float:
        """Return the standard deviations above a forecast that are set aside for it."""
        return min(self.sure, self.most / spread) if spread else 0.0

    def candidates(self, active: Active, cluster: Cluster, *, certain: bool) -> Candidates:
        """Return what a job can run in, with all that is set aside for a firm promise, or with what a chance takes."""
        margin = self.margin(active.spread)
        return candidates_of(active, cluster, margin if certain else min(margin, self.fair), self.hope)


class Ledger:
    """The jobs at one moment, their promises, and the room beside them."""

    def __init__(
        self, terms: PromiseTerms, active: Sequence[Active], cluster: Cluster, new: Active | None = None
    ) -> None:
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
        known: Candidates | None = job.memory
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
        known: Candidates | None = job.memory
        promise, limit = job.promise, job.deadline_left - MOMENT + TIGHT
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


def admit(ledger: Ledger, new: Active) -> bool:
    """Promise room to a newcomer if there is some, or if others can make some; is it firm?"""
    if not ledger.candidates(new).ladders:
        return False
    promise, taken = ledger.offer(new), list[Active]()
    if promise is None:  # what others have done since they were promised room may have made some
        ledger.revise()
        promise = ledger.offer(new) or _among_all_laid_anew(ledger, new)
    if promise is None:
        promise, taken = _after_taking_back(ledger, new)
    if promise is None:
        return False
    new.promise = promise._replace(firm=_is_firm(ledger, new, promise))
    if taken:
        ledger.room(promise.device).take(promise)
        _promise_again(ledger, taken)
    return new.promise.firm


def _among_all_laid_anew(ledger: Ledger, new: Active) -> Promise | None:
    """Lay all promises anew, the widest first, and return a newcomer's; nothing where that fails, or others wait.

    Laid one after the other as jobs come, narrow promises may leave no stretch that is wide enough for the next.
    """
    if ledger.others_wait(new):
        return None
    rooms = {device: Room(new.synced, units, ()) for device, units in ledger.there.items()}
    laid: dict[Active, Promise] = {}
    for job in sorted(ledger.urgent, key=lambda job: (-_narrowest(ledger, job), -job.deadline_left, job.number)):
        promise = ledger.fit(job, rooms)
        if promise is None:
            return None
        rooms[promise.device].take(promise)
        laid[job] = promise
    for job, anew in laid.items():
        job.promise = anew._replace(firm=job.promise is not None and job.promise.firm)
    ledger.revise()
    return laid[new]


def _after_taking_back(ledger: Ledger, new: Active) -> tuple[Promise | None, list[Active]]:
    """Take back dearer promises until there is room for a newcomer; return its own, and whose were taken."""
    dear = [] if ledger.crowds_out(new) else _dearer(ledger, new)
    if len(dear) > 1 and not _suffices(ledger, dear, new):
        return None, []
    for count, dearer in enumerate(dear, start=1):
        assert dearer.promise is not None
        ledger.room(dearer.promise.device).give_back(dearer.promise)
        promise = ledger.fit(new)
        if promise is not None:
            return promise, dear[:count]
    return None, []


def _promise_again(ledger: Ledger, taken: Sequence[Active]) -> None:
    """Promise room again to those whose promises were taken back, the cheapest first, where there is still some."""
    for job in reversed(taken):
        again = ledger.fit(job)
        job.promise = None if again is None else again._replace(firm=False)
        if again is not None:
            ledger.room(again.device).take(again)


def _narrowest(ledger: Ledger, job: Active) -> int:
    return min((ladder.units[0] for ladder in ledger.candidates(job).ladders), default=0)


def _suffices(ledger: Ledger, dear: Sequence[Active], new: Active) -> bool:
    """Return whether there would be room for a newcomer if all of some promises were taken back."""
    promises = [job.promise for job in dear if job.promise is not None]
    for promise in promises:
        ledger.room(promise.device).give_back(promise)
    found = ledger.fit(new)
    for promise in promises if found is not None else ():
        ledger.room(promise.device).take(promise)
    return found is not None


def _dearer(ledger: Ledger, new: Active) -> list[Active]:
    """Return those whose promises may be taken back for a newcomer, the dearest first."""
    least = ledger.terms.worth * ledger.price(new)
    soft = (job for job in ledger.urgent if job is not new and job.promise and not job.promise.firm)
    found = sorted((-price, job.number, job) for job in soft if (price := ledger.price(job)) > least)
    return [job for *_, job in found[: ledger.terms.revoked]]


def _is_firm(ledger: Ledger, new: Active, promise: Promise) -> bool:
    """Return whether firm promises leave enough to others with this one."""
    now, due = new.synced, new.synced + new.deadline_left
    most = ledger.terms.firm * ledger.there[promise.device] * new.deadline_left - promise.held(now, due)
    if ledger.there[promise.device] * new.deadline_left - ledger.room(promise.device).left(due) <= most:
        return True
    others = (job.promise for job in ledger.urgent if job is not new and job.promise)
    return sum(one.held(now, due) for one in others if one.firm and one.device == promise.device) <= most
