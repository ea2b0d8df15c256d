"""Room for jobs with deadlines, promised as late as possible.

A promise is so many units until each of some times, the last of them the deadline. It lies as late as it can:
whatever is free before stays free for those who are in a hurry, and as a job gets on before its promise begins, the
promise begins later and room is given back (slack stealing, as real-time systems have it). So nobody's promise ever
has to be moved for somebody else, and to find room for one job is to look at one profile: what all promises leave.

Going back from the deadline the job takes in each stretch the largest of its configs within k units and within
what is free, until that is enough; every start within the promise takes a restart. The cheapest k is taken that does.
Another size becomes the one to run in

    one below     when that would still be in time, x seconds from now:     b - x * b / s + restart = left - x
    as promised   when all of it is needed to the end:                      spare - x * (1 - p / s) = 0

with b, p and s the seconds to the end one size below, in what was promised and in what the job runs in.

Reference: Chetto and Chetto, Some results of the earliest deadline scheduling algorithm, IEEE TSE 15(10), 1989.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from cotune.cluster.candidates import Ladder
from cotune.cluster.policy import Active, Promise
from cotune.types import Floats, Ints

HAIR = 1e-6  # seconds, below which two times are the same
MOMENT = (
    0.1  # seconds before a deadline at which promises end: decisions come a hair late, thousands of times in a crowd
)
TIGHT = 0.01  # seconds that a promise may fall short by, since sums of seconds are not exact; plans end a moment early
# A promise in many pieces is worth little: each is a change of size, and the pieces hold up others. With at most 4, 8,
# 16 or any number 5,304, 5,270, 5,201 and 5,063 of 10,000 jobs of ITP's cluster 08 are in time, of three other
# clusters 1,770, 1,780, 1,755 and 1,732.
_TURNS = 8
_ENOUGH = 1.0 - 1e-9


class StartCost(NamedTuple):
    """Where a job stands: what a start takes it, the row of what it runs in (-1: nothing), and when it works there."""

    restart: float
    held: int
    waits: float


class Room:
    """How many units of one device are free from now on, beside what was promised."""

    def __init__(self, now: float, units: int, promises: Iterable[Promise]) -> None:
        self.now, self._units = now, units
        self._times: list[float] = [now]
        self._changes: list[int] = [0]
        self._stretches: tuple[Floats, Ints] | None = None
        times, changes = self._times, self._changes
        for promise in promises:
            ends, held = promise.ends, promise.units
            if len(ends) == 2 and not held[0]:  # the usual case, quickly
                if ends[1] > now:
                    times += (ends[0] if ends[0] > now else now, ends[1])
                    changes += (-held[1], held[1])
            else:
                self._book(promise, -1)

    def take(self, promise: Promise) -> None:
        """Take what was promised to somebody."""
        self._book(promise, -1)

    def give_back(self, promise: Promise) -> None:
        """Take back a promise that does not hold any more."""
        self._book(promise, 1)

    def _book(self, promise: Promise, sign: int) -> None:
        begin, ends, held = self.now, promise.ends, promise.units
        self._stretches = None
        for end, units in zip(ends, held, strict=True):
            if end > begin:
                if units:
                    self._times += (begin, end)
                    self._changes += (sign * units, -sign * units)
                begin = end

    def stretches(self) -> tuple[Floats, Ints]:
        """Return where each stretch begins, and what is free in it; the last has no end."""
        if self._stretches is None:
            times = np.array(self._times)
            order = times.argsort(kind="stable")
            times = times[order]
            free = self._units + np.array(self._changes, dtype=np.int64)[order].cumsum()
            apart = np.ones(len(times) + 1, dtype=bool)  # whether a time is another than the one before
            np.greater(times[1:] - times[:-1], HAIR, out=apart[1:-1])
            self._stretches = times[apart[:-1]], free[apart[1:]]
        return self._stretches

    def left(self, until: float) -> float:
        """Return the unit-seconds that are free until a time."""
        begins, free = self.stretches()
        count = int(begins.searchsorted(until))
        return float(free[:count] @ _lasts(begins[:count], until)) if count else 0.0

    def latest(self, ladder: Ladder, until: float, job: StartCost) -> Promise | None:
        """Return the latest promise by which a job ends at a time, as cheap as can be; None if there is no room."""
        begins, free = self.stretches()
        count = int(begins.searchsorted(until - HAIR))
        if not count or not ladder.units:
            return None
        begins, free = begins[:count], free[:count]
        lasts = _lasts(begins, until)
        within = ladder.sizes.searchsorted(free, side="right")
        speed = ladder.speed
        if float(speed[within - 1] @ lasts) < _ENOUGH:
            return None
        rows = sorted(range(len(ladder.units)), key=lambda row: ladder.units[row] * ladder.sure[row])
        for row in rows:
            chosen = np.minimum(within, row + 1) - 1
            found = _from_the_end(chosen, speed, lasts, job)
            if found is None:
                continue
            first, begin = found
            if int((chosen[first + 1 :] != chosen[first:-1]).sum()) < _TURNS:
                units = ladder.counted[chosen[first:]]
                return _promise(float(begins[first]) + begin, begins[first + 1 :], until, units, ladder.device)
        return None


def _lasts(begins: Floats, until: float) -> Floats:
    """Return how long each stretch lasts, the last of them until a time."""
    lasts = np.empty(len(begins))
    np.subtract(begins[1:], begins[:-1], out=lasts[:-1])
    lasts[-1] = until - begins[-1]
    return lasts


def _from_the_end(chosen: Ints, speed: Floats, lasts: Floats, job: StartCost) -> tuple[int, float] | None:
    """Return the stretch in which to begin at the latest and when in it, so that all is done; None if there is none."""
    pace, restart = speed[chosen], job.restart
    if not restart:
        done = (pace * lasts)[::-1].cumsum()
        place = int(done.searchsorted(_ENOUGH))
        if place == len(done):
            return None
        first = len(done) - 1 - place
        return first, max((float(done[place]) - 1.0) / float(pace[first]), 0.0)
    lost = np.where(np.diff(chosen, prepend=-2) != 0, restart, 0.0)
    after = np.append(np.cumsum((pace * (lasts - lost))[::-1])[::-1][1:], 0.0)  # done in the stretches after each
    alone = after + pace * (lasts - restart)
    enough = np.flatnonzero((alone >= _ENOUGH) & (pace > 0))
    if len(enough):
        first = int(enough[-1])
        needs = restart + max(1.0 - float(after[first]), 0.0) / float(pace[first])
        return first, max(float(lasts[first]) - needs, 0.0)
    if 0 <= job.held == chosen[0] and float(after[0] + pace[0] * (lasts[0] - job.waits)) >= _ENOUGH:
        return 0, 0.0
    return None


def _promise(begin: float, turns: Floats, until: float, units: Ints, device: str) -> Promise:
    """Return a promise from a time on, told once for stretches of as many units."""
    changes = units[1:] != units[:-1]
    return Promise((begin, *turns[changes].tolist(), until), (0, *units[:-1][changes].tolist(), int(units[-1])), device)


def trimmed(promise: Promise, ladder: Ladder, now: float, job: StartCost) -> Promise | None:
    """Return the latest part of a promise that is enough for what is left; None if even the whole is not."""
    if len(promise.units) == 2 and promise.units[0] == 0 and promise.ends[0] > now + TIGHT:  # the usual case, quickly
        begin = promise.ends[1] - job.restart - ladder.sure[ladder.row(promise.units[1])]
        if begin >= promise.ends[0]:
            return Promise((begin, promise.ends[1]), promise.units, promise.device, promise.firm)
    begins = (now, *(max(end, now) for end in promise.ends))
    if _may_go_on(promise, ladder, now, job):
        promise = Promise(promise.ends[-1:], (ladder.units[job.held],), promise.device, promise.firm)
        begins = (now, promise.ends[0])
    missing = 1.0
    for place in range(len(promise.units) - 1, -1, -1):
        units = promise.units[place]
        row = ladder.row(units) if units else -1
        begin, end = begins[place], begins[place + 1]
        if row < 0 or end <= begin:
            continue
        needed = missing * ladder.sure[row]
        if job.restart + needed <= end - begin:
            return _cut(promise, place, end - job.restart - needed)
        going_on = row == job.held and begin <= now
        if (job.waits if going_on else job.restart) + needed <= end - begin + TIGHT:
            return _cut(promise, place, begin)
        missing -= max(end - begin - job.restart, 0.0) / max(ladder.sure[row], 1e-9)
        if missing <= 1.0 - _ENOUGH:
            return _cut(promise, place, begin)
    return None


def _may_go_on(promise: Promise, ladder: Ladder, now: float, job: StartCost) -> bool:
    """Return whether a promise has begun, and to go on in what a job holds is as good and takes no more."""
    if job.held < 0 or job.waits + ladder.sure[job.held] > promise.ends[-1] - now + TIGHT:
        return False
    left = [units for units, end in zip(promise.units, promise.ends, strict=True) if end > now + TIGHT]
    return bool(left) and ladder.units[job.held] <= min(left)


def _cut(promise: Promise, place: int, begin: float) -> Promise:
    if place == 1 and promise.units[0] == 0 and promise.ends[0] >= begin - HAIR:
        return promise
    return Promise((begin, *promise.ends[place:]), (0, *promise.units[place:]), promise.device, promise.firm)


def held_at(promise: Promise, now: float) -> int:
    """Return the units that a promise holds now, or in a hair; until the deadline itself for who is not quite done."""
    for end, units in zip(promise.ends, promise.units, strict=True):
        if end > now + TIGHT:
            return units
    return promise.units[-1] if promise.ends[-1] + MOMENT > now else 0


def next_change(promise: Promise, now: float, held: int, *, exactly: bool) -> float:
    """Return when a promise holds more units than are held now, or `exactly` others; infinite if it never does."""
    begin = now
    for end, units in zip(promise.ends, promise.units, strict=True):
        if end > now + TIGHT:
            if units > held or (exactly and 0 < units != held):
                return begin
            begin = end
    return math.inf


def steps_down(active: Active, ladder: Ladder, slack: float) -> float:
    """Return the seconds until a job that goes on as it is would be in time one step below, which wastes less."""
    row = ladder.held
    if row <= 0 or ladder.cost(row) <= (1.0 + slack) * ladder.cost(row - 1):
        return math.inf
    below = ladder.sure[row - 1]
    short = below + active.restart - (active.deadline_left - MOMENT)
    return short / (below / ladder.sure[row] - 1.0) if short > 0 and below > ladder.sure[row] > 0 else math.inf


def steps_up(active: Active, promise: Promise, ladder: Ladder) -> float:
    """Return the seconds until a job that goes on in less than it was promised needs it all; 0 if that is unknown."""
    row = ladder.row(promise.units[-1])
    if len(promise.units) != 2 or promise.units[0] or not 0 <= ladder.held < row:
        return 0.0
    spare = promise.ends[1] - active.restart - ladder.sure[row] - active.synced
    waits = max(active.ready - active.synced, 0.0)
    if spare <= waits:
        return spare
    return waits + (spare - waits) / (1.0 - ladder.sure[row] / ladder.sure[ladder.held])


def begin(job: Active) -> float:
    """Return when the promise of a job begins; never for one that is late."""
    promise = job.promise
    if promise is None or promise.ends[-1] <= job.synced:
        return math.inf
    return promise.ends[0] if promise.units[0] == 0 else job.synced


def start_cost(job: Active, ladder: Ladder) -> StartCost:
    """Return where a job stands on the configs of a device."""
    return StartCost(job.restart, ladder.held, start_seconds(job, ladder, ladder.held))


def start_seconds(job: Active, ladder: Ladder, row: int) -> float:
    """Return the seconds until a job is at work in a config."""
    return max(job.ready - job.synced, 0.0) if row == ladder.held >= 0 else job.restart
