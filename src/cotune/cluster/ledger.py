"""One decision about jobs with deadlines: what is due, who gets on before that, and what is left over.

First everybody holds what is due by its promise. Then those who wait look for room, the cheapest first, and those who
have a promise get on early, whoever is due next first: that keeps the time just ahead free for newcomers in a hurry.
At last idle GPUs make jobs faster where that wastes little, and serve those without a deadline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Protocol

from cotune.cluster.policy import Active, Promise, capacity
from cotune.cluster.promises import MOMENT, TIGHT, Room, Standing, held_at, trimmed
from cotune.cluster.prospects import Ladder, Prospects
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
        self._patient = [job for job in active if job.job.deadline is None]
        self._rooms: dict[str, Room] = {}
        self._new: Active | None = None
        self._given: dict[Active, Config] = {}

    def admit(self, new: Active) -> bool:
        """Promise room to a newcomer if there is some, or if taking back dearer promises makes some; is it firm?"""
        self._new = new
        if not self._prospects(new).ladders or self._crowds_out(new):
            return False
        promise, taken = self._fit(new), list[Active]()
        for dearer in self._dearer(new) if promise is None else ():
            assert dearer.promise is not None
            self._room(dearer.promise.device).give_back(dearer.promise)
            taken.append(dearer)
            promise = self._fit(new)
            if promise is not None:
                break
        if promise is None:
            return False
        for job in taken:
            job.promise = None
        new.promise = replace(promise, firm=self._is_firm(new, promise))
        return new.promise.firm

    def serve(self) -> dict[Active, Config]:
        """Return what everybody shall hold."""
        self._serve_due()
        self._find_room()
        self._get_on()
        self._use_idle()
        return self._given

    def _serve_due(self) -> None:
        """Give what was promised to those whose promises have begun."""
        due: list[tuple[bool, float, int, Active, Promise]] = []
        for job in self._urgent:
            if job.promise is not None and held_at(job.promise, job.synced):
                promise = self._revised(job, job.promise, extend=True)
                due.append((not promise.firm, self._price(job), job.number, job, promise))
        for *_, job, promise in sorted(due, key=lambda one: one[:3]):
            ladder, units = self._ladder(job, promise), held_at(promise, job.synced)
            if units and (units <= self._free[ladder.device] or not job.restart):
                self._give(job, ladder, ladder.row(min(units, self._free[ladder.device])))

    def _find_room(self) -> None:
        """Try those who wait, the cheapest first, if something is free for them now."""
        waiting = [
            job for job in self._urgent if job.promise is None and job.deadline_left > 0 and self._worth_trying(job)
        ]
        for _, _, job in sorted((self._price(job), job.number, job) for job in waiting):
            promise = None if self._crowds_out(job) else self._fit(job)
            if promise is not None:
                job.promise = replace(promise, firm=False)
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
        """Let those who have a promise get on before it begins, whoever is due next first; the late come last."""
        line = [(begin(job), job.number, job) for job in self._urgent if job not in self._given and _goes_on(job)]
        for *_, job in sorted(line):
            ladder, row = self._cheapest(job)
            self._give(job, ladder, min(row, ladder.row(self._free[ladder.device])))

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
        for ladder in self._prospects(job).ladders:
            if now is not None and now.device != ladder.device:
                continue
            reach = ladder.row(self._free[ladder.device] + (now.units if now else 0))
            lasts = [seconds + _start(job, ladder, row) for row, seconds in enumerate(ladder.likely)]
            enough = (1.0 + self._terms.slack) * min(map(float.__mul__, map(float, ladder.units), lasts))
            for row in range(reach + 1):
                found = lasts[row], ladder.units[row], ladder, row
                thrifty = ladder.units[row] * lasts[row] <= enough or (now is None and row == 0)
                best = found if thrifty and (best is None or found[:2] < best[:2]) else best
        if best is None:
            return
        seconds, _, ladder, row = best
        at = -1 if now is None else ladder.configs.index(now)
        if now is None or seconds < (ladder.likely[at] + _start(job, ladder, at)) * (1 - 1e-9):
            self._give(job, ladder, row)

    def _give(self, job: Active, ladder: Ladder, row: int) -> None:
        if row < 0:
            return
        config, before = ladder.configs[row], self._given.get(job)
        self._free[config.device] -= config.units - (before.units if before else 0)
        self._given[job] = config

    def _crowds_out(self, new: Active) -> bool:
        """Return whether a job takes a large part of what is left, and is larger than most who are there."""
        others = [job.job.gpus * job.total for job in self._urgent if job is not new]
        if not others:
            return False
        ladder, row = self._cheapest(new)
        cost = ladder.units[row] * ladder.sure[row]
        left = self._room(ladder.device).left(new.synced + new.deadline_left)
        return cost > self._terms.widest * left and cost > median(others)

    def _dearer(self, new: Active) -> list[Active]:
        """Return those whose promises may be taken back for a newcomer, the dearest first."""
        least = self._terms.worth * self._price(new)
        soft = (job for job in self._urgent if job is not new and job.promise and not job.promise.firm)
        found = sorted((-price, job.number, job) for job in soft if (price := self._price(job)) > least)
        return [job for *_, job in found[: self._terms.revoked]]

    def _is_firm(self, new: Active, promise: Promise) -> bool:
        """Return whether firm promises leave enough to others with this one."""
        now, due = new.synced, new.synced + new.deadline_left
        others = (job.promise for job in self._urgent if job is not new and job.promise)
        held = sum(one.held(now, due) for one in others if one.firm and one.device == promise.device)
        return held + promise.held(now, due) <= self._terms.firm * self._there[promise.device] * new.deadline_left

    def _cheapest(self, job: Active) -> tuple[Ladder, int]:
        """Return the cheapest config in which a job ends in time, or the fastest if none does."""
        known, promise = self._prospects(job), job.promise
        limit = job.deadline_left - MOMENT + TIGHT
        ladders = known.ladders if promise is None else (self._ladder(job, promise),)
        rows = [(ladder, row) for ladder in ladders for row in range(len(ladder.units))]
        in_time = [(ladder, row) for ladder, row in rows if ladder.sure[row] + _start(job, ladder, row) <= limit]
        if in_time or limit <= 0:
            return min(in_time or rows, key=lambda one: one[0].cost(one[1]))
        return min(rows, key=lambda one: one[0].sure[one[1]])

    def _price(self, job: Active) -> float:
        if not self._prospects(job).ladders:
            return math.inf
        ladder, row = self._cheapest(job)
        return ladder.cost(row)

    def _fit(self, job: Active) -> Promise | None:
        """Return the cheapest promise there is room for."""
        until = job.synced + job.deadline_left - MOMENT
        found = []
        for ladder in self._prospects(job).ladders:
            promise = self._room(ladder.device).latest(ladder, until, _standing(job, ladder))
            if promise is not None:
                found.append((ladder.price * promise.held(job.synced, until), promise))
        return min(found, key=lambda one: one[0])[1] if found else None

    def _room(self, device: str) -> Room:
        """Return what promises leave of a device, each as small as it has become."""
        if device not in self._rooms:
            promises = [self._revised(job, job.promise) for job in self._urgent if job.promise is not None]
            kept = (promise for promise in promises if promise.device == device)
            self._rooms[device] = Room(self._urgent[0].synced, self._there[device], kept)
        return self._rooms[device]

    def _revised(self, job: Active, promise: Promise, *, extend: bool = False) -> Promise:
        """Return a promise as far as it is still needed; one that has become too small is made anew."""
        if job.running:
            ladder = self._ladder(job, promise)
            enough = trimmed(promise, ladder, job.synced, _standing(job, ladder))
            job.promise = promise = enough or (self._extended(job, promise) if extend else promise)
        return promise

    def _extended(self, job: Active, promise: Promise) -> Promise:
        self._room(promise.device).give_back(promise)
        found = self._fit(job)
        extended = promise if found is None else replace(found, firm=promise.firm)
        self._room(extended.device).take(extended)
        return extended

    def _ladder(self, job: Active, promise: Promise) -> Ladder:
        return self._prospects(job).on(promise.device)

    def _prospects(self, job: Active) -> Prospects:
        certain = job is self._new or (job.promise is not None and job.promise.firm)
        return self._terms.prospects(job, self._cluster, certain=certain)


def steps_down(active: Active, ladder: Ladder) -> float:
    """Return the seconds until a job that goes on as it is would be in time one step below, which is cheaper."""
    if active.config not in ladder.configs:
        return math.inf
    row = ladder.configs.index(active.config)
    if row == 0 or ladder.cost(row) <= ladder.cost(row - 1):
        return math.inf
    below = ladder.sure[row - 1]
    short = below + active.restart - (active.deadline_left - MOMENT)
    return short / (below / ladder.sure[row] - 1.0) if short > 0 and below > ladder.sure[row] > 0 else math.inf


def _goes_on(job: Active) -> bool:
    """Return whether a job has a promise, or had a firm one and is late."""
    return job.promise is not None or job.deadline_left <= 0


def begin(job: Active) -> float:
    """Return when the promise of a job begins; never for one that is late."""
    promise = job.promise
    if promise is None or promise.ends[-1] <= job.synced:
        return math.inf
    return promise.ends[0] if promise.units[0] == 0 else job.synced


def _standing(job: Active, ladder: Ladder) -> Standing:
    if job.config is None or job.config not in ladder.configs:
        return Standing(job.restart, -1, job.restart)
    return Standing(job.restart, ladder.configs.index(job.config), max(job.ready - job.synced, 0.0))


def _start(job: Active, ladder: Ladder, row: int) -> float:
    """Return the seconds until a job is at work in a config."""
    if job.config is not None and ladder.configs[row] == job.config:
        return max(job.ready - job.synced, 0.0)
    return job.restart
