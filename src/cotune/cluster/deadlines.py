"""Sharing a cluster over time so that deadlines are met: earliest deadline first, the least that suffices.

Time until the last deadline is cut at every deadline, and where a job of the plan ends. Going by
deadline, each job gets the smallest share k with which it ends in time, taking in each stretch the
largest of its configs within k and within what earlier deadlines left free. A job that no share
saves gets what is left, as soon as possible (ElasticFlow's progressive filling). `relaxed` (ours)
lets a job go one step down from k from the time on at which that still ends in time.

Reference: Gu et al., ElasticFlow: an elastic serverless training platform, ASPLOS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from cotune.cluster.options import Options
from cotune.cluster.policy import Active, Promise
from cotune.types import Config, Floats, Ints

_MOMENT = 0.1  # seconds: decisions come a hair late, thousands of times in a crowd
Column = TypeVar("Column", Ints, Floats)


@dataclass(frozen=True)
class Share:
    """What a job gets now under a plan that meets its deadline, or does not."""

    active: Active
    config: Config | None
    met: bool
    promise: Promise | None = None  # by which it is met


def fill(
    active: Sequence[Active],
    gpus: int,
    options: Callable[[Active], Options],
    *,
    first: Sequence[int] = (),
    last: Collection[int] = (),
    promised: bool = False,
    relaxed: bool = False,
) -> list[Share]:
    """Return the shares of jobs with deadlines, in order of their deadlines, but the jobs of some numbers `first`.

    With `promised` the jobs that have a promise get what it says; the others share what that leaves. The jobs of the
    numbers in `last` choose last, out of what was promised to them and what all others leave.
    With `relaxed` a job goes one step down from the time on at which that still ends in time.
    """
    turn = {number: place for place, number in enumerate(first)}
    urgent = sorted(
        (job for job in active if math.isfinite(job.deadline_left)),
        key=lambda job: (
            job.number in last,
            not (promised and job.promise),
            turn.get(job.number, len(turn)),
            job.deadline_left,
            job.number,
        ),
    )
    room = _Room(np.unique([_limit(job) for job in urgent]) if urgent else np.zeros(0), gpus)
    for job in urgent:
        if job.number in last:
            room.book(job, -1)
    shares = []
    for job in urgent:
        if job.number in last:
            room.book(job, 1)
        shares.append(_share(job, room, options(job), job.promise if promised else None, relaxed=relaxed))
    return shares


def _limit(job: Active) -> float:
    """Return when a job is to end: a moment before its deadline, since sums of seconds are not exact."""
    return max(job.deadline_left - _MOMENT, 0.0)


class _Room:
    """What is free over time: so many units until each of some ends."""

    def __init__(self, ends: Floats, gpus: int) -> None:
        self.ends = ends
        self.lasts = np.diff(ends, prepend=0.0)
        self.free = np.full(len(ends), gpus, dtype=np.int64)

    def cut(self, end: float) -> bool:
        """Let a stretch end at a time, and return whether that made two of one."""
        place = int(self.ends.searchsorted(end - 1e-6))
        if place == len(self.ends) or self.ends[place] <= end + 1e-6 or end <= 1e-6:
            return False
        self.ends = _twice(self.ends, place)
        self.ends[place] = end
        self.free = _twice(self.free, place)
        self.lasts = np.diff(self.ends, prepend=0.0)
        return True

    def book(self, job: Active, sign: int) -> None:
        """Take what a job was promised, or give it back."""
        if job.promise is None or not len(self.ends):
            return
        for end in job.promise.ends:
            self.cut(end - job.synced)
        self.free += sign * _promised(job.promise, self.ends + job.synced)

    def end(self, options: Options, chosen: Ints) -> tuple[int, float]:
        """Return the stretch in which a job ends and how much of it is left then; the last and -inf if it does not."""
        pace = options.speed[chosen]
        done = np.maximum.accumulate(np.cumsum(pace * options.working(chosen, self.lasts[: len(chosen)])))
        last = int(done.searchsorted(1.0 - 1e-9))
        if last == len(done):
            return last - 1, -math.inf
        return last, max((done[last] - 1.0) / pace[last], 0.0)

    def spent(self, options: Options, chosen: Ints) -> float:
        """Return the unit-seconds until a job ends; infinite if it does not."""
        last, surplus = self.end(options, chosen)
        if surplus < 0:
            return math.inf
        held = options.units[chosen[: last + 1]]
        return float(held @ self.lasts[: last + 1] - held[-1] * surplus)

    def take(self, options: Options, chosen: Ints) -> tuple[Floats, Ints]:
        """Take the chosen in each stretch until the job ends, or for all; return until when how many."""
        last, surplus = self.end(options, chosen)
        if surplus > 1e-6:
            self.cut(self.ends[last] - surplus)
        held = options.units[chosen[: last + 1]]
        self.free[: last + 1] -= held
        return self.ends[: last + 1].copy(), held


def _twice(column: Column, place: int) -> Column:
    """Return a column with the value at a place told twice."""
    return np.concatenate([column[: place + 1], column[place:]])


def _share(job: Active, room: _Room, options: Options, promise: Promise | None, *, relaxed: bool) -> Share:
    """Return a job's share, and take it from what is free."""
    if not len(room.ends):
        return Share(job, None, met=False)
    for end in () if promise is None else promise.ends:
        room.cut(end - job.synced)
    last = int(room.ends.searchsorted(_limit(job) - 1e-9)) + 1 if _limit(job) > 0 else 0
    limits = np.broadcast_to(options.sizes[:, None], (len(options.sizes), last))
    if promise is not None:
        limits = np.concatenate([_promised(promise, room.ends[:last] + job.synced)[None, :], limits])
    chosen = options.within(np.minimum(room.free[:last], limits))
    done = (options.speed[chosen] * options.working(chosen, room.lasts[:last])).sum(axis=1)
    enough = np.flatnonzero(done >= 1.0 - 1e-9)
    if not len(enough):
        rest = options.within(room.free)
        room.take(options, rest)
        return Share(job, options.configs[rest[0]], met=False)
    found = _relaxed(room, options, chosen[enough[0]]) if relaxed else chosen[enough[0]]
    until, booked = room.take(options, found)
    return Share(job, options.configs[found[0]], met=True, promise=_promise(until + job.synced, booked))


def _relaxed(room: _Room, options: Options, chosen: Ints) -> Ints:
    """Return the same with one step less from some time on, so that the job ends just in time, if that is cheaper."""
    units, speed = options.units[chosen], options.speed[chosen]
    lower = options.within(np.minimum(units, units.max() - 1))
    lasts, slower = room.lasts[: len(chosen)], options.speed[lower]
    less = slower * options.working(lower, lasts)
    gained = np.cumsum(speed * options.working(chosen, lasts) - less)
    missing = 1.0 - float(less.sum()) + options.restart * float(slower.max())  # to step down is a start too
    enough = np.flatnonzero((gained >= missing) & (speed > slower))
    if missing <= 0 or not len(enough):
        return chosen
    at = int(enough[0])  # the stretch in which the larger share is no longer needed
    before = room.spent(options, chosen)
    surplus = min((gained[at] - missing) / (speed[at] - slower[at]), lasts[at])
    if room.cut(room.ends[at] - surplus):
        chosen, lower = _twice(chosen, at), _twice(lower, at)
    mixed = np.concatenate([chosen[: at + 1], lower[at + 1 :]])
    return mixed if room.spent(options, mixed) < before else chosen


def _promised(promise: Promise, ends: Floats) -> Ints:
    """Return the units of a promise in the stretches up to each of some times on the clock."""
    counted = np.append(np.array(promise.units, dtype=np.int64), 0)
    return counted[np.searchsorted(promise.ends, ends - 1e-6)]


def _promise(ends: Floats, units: Ints) -> Promise:
    """Return a promise of so many units until each end, told once for stretches of as many."""
    last = np.flatnonzero(np.append(units[1:] != units[:-1], True))
    return Promise(tuple(ends[last].tolist()), tuple(units[last].tolist()))
