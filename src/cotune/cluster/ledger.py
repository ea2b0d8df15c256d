"""One decision about jobs with deadlines: what is due, who gets on before that, and what is left over.

First everybody holds what is due by its promise. Then those who wait look for room, the cheapest first, and those who
have a promise get on early, whoever is due next first: that keeps the time just ahead free for newcomers in a hurry.
At last idle GPUs make jobs faster where that wastes little, and serve those without a deadline.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import mul
from typing import Protocol

from cotune.cluster.policy import Active, Promise, capacity
from cotune.cluster.promises import MOMENT, TIGHT, Room, held_at, trimmed
from cotune.cluster.prospects import Ladder, Prospects, Revised
from cotune.cluster.turning_points import begin, standing, start_seconds, steps_down
from cotune.types import Cluster, Config

_AGAIN = 0.05  # of the time it can still wait: how long a job waits to be tried again that found no room


class AdmissionTerms(Protocol):
    """What a policy decides by, see `joint`."""

    @property
    def slack(self) -> float: ...

    @property
    def widest(self) -> float: ...

    @property
    def firm(self) -> float: ...

    @property
    def worth(self) -> float: ...

    @property
    def revoked(self) -> int: ...

    def prospects(self, active: Active, cluster: Cluster, *, certain: bool) -> Prospects:
        """Return what a job can run in."""
        ...


class Ledger:
    """Who holds what was promised at one moment, and what is left to give."""

    def __init__(self, terms: AdmissionTerms, active: Sequence[Active], cluster: Cluster) -> None:
        self._terms, self._cluster = terms, cluster
        self._there = capacity(cluster)
        self._free = dict(self._there)
        self._urgent = [job for job in active if job.job.deadline is not None]
        alike = len(self._urgent) == len(active)
        self._patient = [] if alike else [job for job in active if job.job.deadline is None]
        self._rooms: dict[str, Room] = {}
        self._revising = False  # whether promises are made as small as they have become
        self._new: Active | None = None
        self._given: dict[Active, tuple[Ladder, int]] = {}
        self._known: dict[Active, Prospects] = {}
        self._asked: list[float] = []
        self._lacking: list[Active] | None = None  # who had no promise when that was first asked

    def admit(self, new: Active) -> bool:
        """Promise room to a newcomer if there is some, or if taking back dearer promises makes some; is it firm?"""
        self._new = new
        if not self._prospects(new).ladders:
            return False
        promise, taken = self._found(new), list[Active]()
        if promise is None:  # what others have done since they were promised room may have made some
            self._rooms, self._revising = {}, True
            promise = self._found(new)
        if promise is None and (laid := self._laid_anew(new)):
            for job, anew in laid.items():
                job.promise = anew._replace(firm=job.promise is not None and job.promise.firm)
            self._rooms = {}
            new.promise = laid[new]._replace(firm=self._is_firm(new, laid[new]))
            return new.promise.firm
        dear = self._dearer(new) if promise is None and not self._crowds_out(new) else []
        if len(dear) > 1 and not self._suffices(dear, new):
            return False
        for dearer in dear:
            assert dearer.promise is not None
            self._room(dearer.promise.device).give_back(dearer.promise)
            taken.append(dearer)
            promise = self._fit(new)
            if promise is not None:
                break
        if promise is None:
            return False
        new.promise = promise._replace(firm=self._is_firm(new, promise))
        if taken:
            self._room(promise.device).take(promise)
        for job in reversed(taken):  # the cheapest first, where there is still room
            again = self._fit(job)
            job.promise = None if again is None else again._replace(firm=False)
            if again is not None:
                self._room(again.device).take(again)
        return new.promise.firm

    def _laid_anew(self, new: Active) -> dict[Active, Promise]:
        """Return promises to all, the widest laid first, where nobody else waits for one; none where that fails.

        Laid one after the other as jobs come, narrow promises may leave no stretch that is wide enough for the next.
        """
        if self._others_wait(new):
            return {}
        rooms = {device: Room(new.synced, units, ()) for device, units in self._there.items()}
        found: dict[Active, Promise] = {}
        for job in sorted(self._urgent, key=lambda job: (-self._narrowest(job), -job.deadline_left, job.number)):
            promise = self._fit(job, rooms)
            if promise is None:
                return {}
            rooms[promise.device].take(promise)
            found[job] = promise
        return found

    def _narrowest(self, job: Active) -> int:
        return min((ladder.units[0] for ladder in self._prospects(job).ladders), default=0)

    def _suffices(self, dear: Sequence[Active], new: Active) -> bool:
        """Return whether there would be room for a newcomer if all of some promises were taken back."""
        promises = [job.promise for job in dear if job.promise is not None]
        for promise in promises:
            self._room(promise.device).give_back(promise)
        found = self._fit(new)
        for promise in promises if found is not None else ():
            self._room(promise.device).take(promise)
        return found is not None

    def _found(self, new: Active) -> Promise | None:
        return None if self._crowds_out(new) else self._fit(new)

    def serve(self) -> dict[str, Config]:
        """Return what everybody shall hold; who needs the most nodes comes first, and chooses them first."""
        self._revising = True
        self._serve_due()
        self._find_room()
        self._get_on()
        self._use_idle()
        given = sorted(self._given.items(), key=lambda entry: -entry[1][0].units[entry[1][1]])
        return {job.job.name: ladder.configs[row] for job, (ladder, row) in given}

    def _serve_due(self) -> None:
        """Give what was promised to those whose promises have begun."""
        due: list[tuple[Active, Promise, int]] = []
        for job in self._urgent:
            promise, now = job.promise, job.synced
            if promise is None or (promise.ends[0] > now + TIGHT and not promise.units[0]):
                continue  # the usual case, quickly: it has not begun
            if held_at(promise, now):
                promise = self._revised(job, promise, extend=True)
                due.append((job, promise, held_at(promise, now)))
        if sum(units for *_, units in due) > sum(self._free.values()):  # some overran what was set aside for them
            due.sort(key=lambda one: (not one[1].firm, self._price(one[0]), one[0].number))
        for job, promise, units in due:
            ladder = self._ladder(job, promise)
            if units and (units <= self._free[ladder.device] or not job.restart):
                self._give(job, ladder, ladder.row(min(units, self._free[ladder.device])))

    def _find_room(self) -> None:
        """Try those who wait, the cheapest first, if something is free for them now."""
        if not any(self._free.values()):
            return
        waiting = [
            job for job in self._urgent if job.promise is None and job.deadline_left > 0 and self._worth_trying(job)
        ]
        for _, _, job in sorted((self._price(job), job.number, job) for job in waiting):
            promise = self._found(job)
            if promise is not None:
                job.promise = promise._replace(firm=False)
                self._room(promise.device).take(promise)
            else:
                self._prospects(job).tried = job.synced

    def _worth_trying(self, job: Active) -> bool:
        """Return whether a job could start now, and was not tried in vain a moment ago."""
        known = self._prospects(job)
        wait = _AGAIN * max(job.deadline_left - known.quickest, 0.0)
        return job.synced >= known.tried + wait and any(
            ladder.units[0] <= self._free[ladder.device] for ladder in known.ladders
        )

    def _get_on(self) -> None:
        """Let those who have a promise get on before it begins, whoever is due next first; the late come last.

        Where a start takes time those who run stay before that: as a job gets on it is due later, and two would take
        turns for ever. On nodes they do not, since who stays where it is leaves nobody else whole nodes.
        """
        if not any(self._free.values()):
            return
        given = self._given
        counted = all(device.per_node is None for device in self._cluster.devices)
        line = [
            (not (counted and job.restart and job.running), begin(job), job.number, job)
            for job in self._urgent
            if job not in given and _goes_on(job)
        ]
        left = sum(self._free.values())
        for *_, job in sorted(line):
            if not left:
                return
            ladder, row = self._base(job)
            row = min(row, ladder.row(self._free[ladder.device]))
            if row >= 0:
                self._give(job, ladder, row)
                left -= ladder.units[row]

    def _base(self, job: Active) -> tuple[Ladder, int]:
        """Return in what a job gets on: as it is, as long as nothing cheaper is in time."""
        known = job.prospects
        if (
            known is not None
            and known.base is not None
            and known.config is job.config
            and job.synced < known.base_until
        ):
            return known.base
        known = self._prospects(job)
        ladder, row = known.base = self._cheapest(job)
        goes_on = row == ladder.held and not job.spread
        known.base_until = job.synced + steps_down(job, ladder, 0.0) if goes_on else -math.inf
        return ladder, row

    def _use_idle(self) -> None:
        """Let jobs go faster where that wastes little, those without a deadline at the end."""
        if not any(self._free.values()):
            return
        for job in sorted(
            (job for job in self._urgent if job in self._given), key=lambda one: (one.deadline_left, one.number)
        ):
            # a start now would come too late for a promise that is about to begin
            if not (job.restart and job.promise and begin(job) < job.synced + job.restart):
                self._go_faster(job)
        for job in self._patient:
            self._go_faster(job)

    def _go_faster(self, job: Active) -> None:
        """Give a job the fastest config in reach that wastes little."""
        now = self._given.get(job)
        best: tuple[float, int, Ladder, int] | None = None
        for ladder in self._prospects(job).ladders if now is None else (now[0],):
            held = 0 if now is None else ladder.units[now[1]]
            reach = ladder.row(self._free[ladder.device] + held)
            if reach < 0 or ladder.units[reach] <= held:
                continue
            lasts = [seconds + start_seconds(job, ladder, row) for row, seconds in enumerate(ladder.likely)]
            enough = (1.0 + self._terms.slack) * min(map(mul, ladder.units, lasts))
            for row in range(reach + 1):
                found = lasts[row], ladder.units[row], ladder, row
                thrifty = ladder.units[row] * lasts[row] <= enough or (now is None and row == 0)
                best = found if thrifty and (best is None or found[:2] < best[:2]) else best
        if best is None:
            return
        seconds, _, ladder, row = best
        if now is None or seconds < (ladder.likely[now[1]] + start_seconds(job, ladder, now[1])) * (1 - 1e-9):
            self._give(job, ladder, row)

    def _give(self, job: Active, ladder: Ladder, row: int) -> None:
        if row < 0:
            return
        before = self._given.get(job)
        self._free[ladder.device] -= ladder.units[row] - (before[0].units[before[1]] if before else 0)
        self._given[job] = ladder, row

    def _crowds_out(self, new: Active) -> bool:
        """Return whether others wait, and a job takes a large part of what is left and is larger than most."""
        if not self._others_wait(new):
            return False
        ladder, row = self._cheapest(new)
        cost = ladder.units[row] * ladder.sure[row]
        if cost <= self._terms.widest * self._room(ladder.device).left(new.synced + new.deadline_left):
            return False
        self._asked = self._asked or sorted([job.job.gpus * job.total for job in self._urgent])
        return cost > _median_without(self._asked, new.job.gpus * new.total)

    def _others_wait(self, new: Active) -> bool:
        if self._lacking is None:
            self._lacking = [job for job in self._urgent if job.promise is None]
        return any(job.promise is None for job in self._lacking if job is not new)

    def _dearer(self, new: Active) -> list[Active]:
        """Return those whose promises may be taken back for a newcomer, the dearest first."""
        least = self._terms.worth * self._price(new)
        soft = (job for job in self._urgent if job is not new and job.promise and not job.promise.firm)
        found = sorted((-price, job.number, job) for job in soft if (price := self._price(job)) > least)
        return [job for *_, job in found[: self._terms.revoked]]

    def _is_firm(self, new: Active, promise: Promise) -> bool:
        """Return whether firm promises leave enough to others with this one."""
        now, due = new.synced, new.synced + new.deadline_left
        most = self._terms.firm * self._there[promise.device] * new.deadline_left - promise.held(now, due)
        if self._there[promise.device] * new.deadline_left - self._room(promise.device).left(due) <= most:
            return True
        others = (job.promise for job in self._urgent if job is not new and job.promise)
        return sum(one.held(now, due) for one in others if one.firm and one.device == promise.device) <= most

    def _cheapest(self, job: Active) -> tuple[Ladder, int]:
        """Return the cheapest config in which a job ends in time, or the fastest if none does."""
        known, promise, limit = job.prospects, job.promise, job.deadline_left - MOMENT + TIGHT
        if known is not None and len(known.ladders) == 1 and len(known.ladders[0].units) == 1:
            return known.ladders[0], 0
        ladders = self._prospects(job).ladders if promise is None else (self._ladder(job, promise),)
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

    def _price(self, job: Active) -> float:
        """Return what a job still costs in the cheapest config that ends in time."""
        if not self._prospects(job).ladders:
            return math.inf
        ladder, row = self._cheapest(job)
        return ladder.cost(row)

    def _fit(self, job: Active, rooms: Mapping[str, Room] | None = None) -> Promise | None:
        """Return the cheapest promise there is room for, beside all others' or in other rooms."""
        until = job.synced + job.deadline_left - MOMENT
        found = []
        for ladder in self._prospects(job).ladders:
            room = rooms[ladder.device] if rooms else self._room(ladder.device)
            promise = room.latest(ladder, until, standing(job, ladder))
            if promise is not None:
                found.append((ladder.price * promise.held(job.synced, until), promise))
        return min(found, key=lambda one: one[0])[1] if found else None

    def _room(self, device: str) -> Room:
        """Return what promises leave of a device, each as small as it has become."""
        if device not in self._rooms:
            holders = [(job, job.promise) for job in self._urgent if job.promise is not None]
            promises = [self._revised(*one) if self._revising else one[1] for one in holders]
            kept = [promise for promise in promises if promise.device == device]
            self._rooms[device] = Room(self._urgent[0].synced, self._there[device], kept)
        return self._rooms[device]

    def _revised(self, job: Active, promise: Promise, *, extend: bool = False) -> Promise:
        """Return a promise as far as it is still needed; one that has become too small is made anew."""
        if job.config is None:
            return promise
        known = self._prospects(job)
        before, now = known.revised, job.synced
        if before is not None and before.promise is promise and before.at == now and before.config is job.config:
            return promise
        ladder = known.on(promise.device)
        enough = trimmed(promise, ladder, now, standing(job, ladder))
        if enough is not None:
            known.revised = Revised(enough, job.config, now)
        elif extend:
            enough = self._extended(job, promise)
        job.promise = enough or promise
        return job.promise

    def _extended(self, job: Active, promise: Promise) -> Promise:
        self._room(promise.device).give_back(promise)
        found = self._fit(job)
        extended = promise if found is None else found._replace(firm=promise.firm)
        self._room(extended.device).take(extended)
        return extended

    def _ladder(self, job: Active, promise: Promise) -> Ladder:
        return self._prospects(job).on(promise.device)

    def _prospects(self, job: Active) -> Prospects:
        known = job.prospects
        unchanged = known is not None and known.done == job.done and known.config is job.config
        if known is not None and unchanged and not job.spread and not known.margin:  # the usual case, quickly
            return known
        known = self._known.get(job)
        if known is None:
            certain = job is self._new or (job.promise is not None and job.promise.firm)
            known = self._known[job] = self._terms.prospects(job, self._cluster, certain=certain)
        return known


def _goes_on(job: Active) -> bool:
    """Return whether a job has a promise, or had a firm one and is late."""
    return job.promise is not None or job.deadline_left <= 0


def _median_without(ordered: Sequence[float], value: float) -> float:
    """Return the median of some ordered numbers but one."""
    out, left = bisect_left(ordered, value), len(ordered) - 1
    pick = [ordered[place + (place >= out)] for place in ((left - 1) // 2, left // 2)]
    return sum(pick) / 2
