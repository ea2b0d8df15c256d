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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from cotune.schedule import Active, Promise
from cotune.types import Config, Floats, Ints

_NEAR = 0.02  # of the whole
_MOMENT = 1e-3  # seconds
Column = TypeVar("Column", Ints, Floats)
Needs = Callable[[Active, Config], float]  # believed seconds to the end in a config


@dataclass(frozen=True)
class Options:
    """What a job can run in, by units; row -1 is to run in nothing."""

    configs: Sequence[Config | None]
    sizes: Ints  # units of each config, rising
    units: Ints  # the same, and of nothing
    speed: Floats  # how much of what is left is done per second
    best: Ints  # the fastest of the first so many configs

    @classmethod
    def of(cls, active: Active, needs: Needs | None = None) -> Options:
        took = {config: (needs or seconds_left)(active, config) for config in choices(active)}
        configs = sorted(took, key=lambda config: (config.workers + config.servers, took[config]))
        sizes = np.array([config.workers + config.servers for config in configs], dtype=np.int64)
        speed = np.array([*(1.0 / max(took[config], 1e-9) for config in configs), 0.0])
        return cls((*configs, None), sizes, np.append(sizes, 0), speed, _fastest_within(speed[:-1]))

    def within(self, units: Ints) -> Ints:
        """Return the row of the fastest config within each of some units."""
        return self.best[np.searchsorted(self.sizes, units, side="right")]


@dataclass(frozen=True)
class Share:
    """What a job gets now under a plan that meets its deadline, or does not."""

    active: Active
    config: Config | None
    met: bool
    promise: Promise | None = None  # by which it is met


def choices(active: Active) -> tuple[Config, ...]:
    """Return the configs of a job, by units."""
    if active.belief is None:
        return (active.job.config,)
    return active.belief.configs


def seconds_left(active: Active, config: Config) -> float:
    """Return the believed time to the end in a config; a job past its forecast is taken to be near its end."""
    left = active.left if active.belief is None else active.belief.seconds(active.done, config)
    if left > 0:
        return left
    return _NEAR * (active.total if active.belief is None else active.belief.seconds(0.0, config))


def cautious(active: Active, config: Config, z: float) -> float:
    """Return the time to the end that is not exceeded with the probability of z standard deviations."""
    left = seconds_left(active, config)
    return left if not active.spread else left + (math.exp(z * active.spread) - 1.0) * (left + _passed(active, config))


def _passed(active: Active, config: Config) -> float:
    """Return the believed time that what is done would have taken in a config."""
    if active.belief is None:
        return max(active.done, 0.0)
    return max(active.belief.seconds(0.0, config) - active.belief.seconds(active.done, config), 0.0)


def fill(
    active: Sequence[Active],
    gpus: int,
    options: Callable[[Active], Options] | None = None,
    *,
    first: Sequence[int] = (),
    promised: bool = False,
    relaxed: bool = False,
) -> list[Share]:
    """Return the shares of jobs with deadlines, in order of their deadlines, but the jobs of some numbers `first`.

    With `promised` the jobs that have a promise get what it says; the others share what that leaves.
    With `relaxed` a job goes one step down from the time on at which that still ends in time.
    """
    options = options or Options.of
    turn = {number: place for place, number in enumerate(first)}
    urgent = sorted(
        (job for job in active if math.isfinite(job.deadline_left)),
        key=lambda job: (
            not (promised and job.promise),
            turn.get(job.number, len(turn)),
            job.deadline_left,
            job.number,
        ),
    )
    room = _Room(np.unique([_limit(job) for job in urgent]) if urgent else np.zeros(0), gpus)
    return [_share(job, room, options(job), job.promise if promised else None, relaxed=relaxed) for job in urgent]


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

    def take(self, units: Ints, pace: Floats) -> tuple[Floats, Ints]:
        """Take units in each stretch until work of 1 is done at these paces, or for all; return until when how many."""
        done = np.cumsum(pace * self.lasts[: len(pace)])
        last = min(int(done.searchsorted(1.0 - 1e-9)), len(done) - 1)
        surplus = (done[last] - 1.0) / pace[last] if pace[last] > 0 else 0.0
        if surplus > 1e-6:
            self.cut(self.ends[last] - surplus)
        self.free[: last + 1] -= units[: last + 1]
        return self.ends[: last + 1].copy(), units[: last + 1]


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
    enough = np.flatnonzero(options.speed[chosen] @ room.lasts[:last] >= 1.0 - 1e-9)
    if not len(enough):
        chosen = options.within(room.free)
        room.take(options.units[chosen], options.speed[chosen])
        return Share(job, options.configs[chosen[0]], met=False)
    found = chosen[enough[0]]
    found = _relaxed(room, options, found) if relaxed else found
    until, booked = room.take(options.units[found], options.speed[found])
    return Share(job, options.configs[found[0]], met=True, promise=_promise(until + job.synced, booked))


def _relaxed(room: _Room, options: Options, chosen: Ints) -> Ints:
    """Return the same with one step less from some time on, so that the job ends just in time."""
    units, speed = options.units[chosen], options.speed[chosen]
    lower = options.within(np.minimum(units, units.max() - 1))
    lasts, slower = room.lasts[: len(chosen)], options.speed[lower]
    gained = np.cumsum((speed - slower) * lasts)
    missing = 1.0 - float(slower @ lasts)
    at = int(gained.searchsorted(missing))  # the stretch in which the larger share is no longer needed
    if missing <= 0 or at == len(chosen):
        return chosen
    surplus = (gained[at] - missing) / (speed[at] - slower[at])
    if room.cut(room.ends[at] - surplus):
        chosen, lower = _twice(chosen, at), _twice(lower, at)
    return np.concatenate([chosen[: at + 1], lower[at + 1 :]])


def _promised(promise: Promise, ends: Floats) -> Ints:
    """Return the units of a promise in the stretches up to each of some times on the clock."""
    counted = np.append(np.array(promise.units, dtype=np.int64), 0)
    return counted[np.searchsorted(promise.ends, ends - 1e-6)]


def _promise(ends: Floats, units: Ints) -> Promise:
    """Return a promise of so many units until each end, told once for stretches of as many."""
    last = np.flatnonzero(np.append(units[1:] != units[:-1], True))
    return Promise(tuple(ends[last].tolist()), tuple(units[last].tolist()))


def _fastest_within(speed: Floats) -> Ints:
    """Return, for each number of configs from none to all, which of the first so many is the fastest; -1 for none."""
    best = [-1]
    for place, value in enumerate(speed):
        best.append(place if best[-1] < 0 or value > speed[best[-1]] else best[-1])
    return np.array(best, dtype=np.int64)
