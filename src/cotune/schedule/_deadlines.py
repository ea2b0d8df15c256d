"""Sharing a cluster over time so that deadlines are met: earliest deadline first, the least that suffices.

Time until the last deadline is cut at every deadline, and where a job of the plan ends. Going by
deadline, each job gets the smallest share k with which it ends in time, taking in each stretch the
largest of its configs within k and within what earlier deadlines left free. A job that no share
saves gets what is left, as soon as possible (ElasticFlow's progressive filling).

Reference: Gu et al., ElasticFlow: an elastic serverless training platform, ASPLOS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cotune.schedule import Active, Promise
from cotune.types import Config, Floats, Ints

_NEAR = 0.02  # of the whole
Needs = Callable[[Active, Config], float]  # believed seconds to the end in a config


@dataclass(frozen=True)
class Options:
    """What a job can run in, by units: how much of what is left is done per second, and the best within so many."""

    configs: Sequence[Config]
    units: Ints
    speed: Floats
    best: Ints

    @classmethod
    def of(cls, active: Active, needs: Needs | None = None) -> Options:
        took = {config: (needs or seconds_left)(active, config) for config in choices(active)}
        configs = sorted(took, key=lambda config: (config.workers + config.servers, took[config]))
        units = np.array([config.workers + config.servers for config in configs], dtype=np.int64)
        speed = np.array([1.0 / max(took[config], 1e-9) for config in configs])
        return cls(configs, units, speed, _fastest_within(speed))


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
) -> list[Share]:
    """Return the shares of jobs with deadlines, in order of their deadlines, but the jobs of some numbers `first`.

    With `promised` the jobs that have a promise get what it says; the others share what that leaves.
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
    room = _Room(np.unique(np.maximum([job.deadline_left for job in urgent], 0.0)) if urgent else np.zeros(0), gpus)
    return [_share(job, room, options(job), job.promise if promised else None) for job in urgent]


class _Room:
    """What is free over time: so many units until each of some ends."""

    def __init__(self, ends: Floats, gpus: int) -> None:
        self.ends = ends
        self.free = np.full(len(ends), gpus, dtype=np.int64)

    def cut(self, at: Floats) -> None:
        """Let stretches end at some times too."""
        for end in at[at < self.ends[-1]]:
            place = int(np.searchsorted(self.ends, end - 1e-6))
            if self.ends[place] > end + 1e-6:
                self.ends = np.insert(self.ends, place, end)
                self.free = np.insert(self.free, place, self.free[place])

    def take(self, units: Ints, pace: Floats) -> tuple[Floats, Ints]:
        """Take units in each stretch until work of 1 is done at these paces, or for all; return until when how many."""
        done = np.cumsum(pace * np.diff(self.ends[: len(pace)], prepend=0.0))
        last = min(int(np.searchsorted(done, 1.0 - 1e-9)), len(done) - 1)
        surplus = (done[last] - 1.0) / pace[last] if pace[last] > 0 else 0.0
        if surplus > 1e-6:
            self.cut(np.array([self.ends[last] - surplus]))
        self.free[: last + 1] -= units[: last + 1]
        return self.ends[: last + 1].copy(), units[: last + 1]


def _share(job: Active, room: _Room, options: Options, promise: Promise | None) -> Share:
    """Return a job's share, and take it from what is free."""
    if not len(room.ends):
        return Share(job, None, met=False)
    configs, units, speed, best = options.configs, options.units, options.speed, options.best
    limits: list[Ints] = []
    if promise is not None:
        ends = np.array(promise.ends) - job.synced
        room.cut(ends[ends > 0])
        counted = np.append(np.array(promise.units, dtype=np.int64), 0)
        limits = [counted[np.searchsorted(ends, room.ends - 1e-6)]]
    last = int(np.searchsorted(room.ends, job.deadline_left - 1e-9)) + 1 if job.deadline_left > 0 else 0
    lasts = np.diff(room.ends[:last], prepend=0.0)
    for limit in (*limits, *(np.full(len(room.ends), most) for most in np.unique(units))):
        chosen = best[np.searchsorted(units, np.minimum(room.free, limit)[:last], side="right")]
        pace = np.where(chosen >= 0, speed[chosen], 0.0)
        if float(pace @ lasts) >= 1.0 - 1e-9:
            until, booked = room.take(np.where(chosen >= 0, units[chosen], 0), pace)
            kept = Promise(tuple((until + job.synced).tolist()), tuple(booked.tolist()))
            return Share(job, configs[chosen[0]] if chosen[0] >= 0 else None, met=True, promise=kept)
    chosen = best[np.searchsorted(units, room.free, side="right")]
    room.take(np.where(chosen >= 0, units[chosen], 0), np.where(chosen >= 0, speed[chosen], 0.0))
    return Share(job, configs[chosen[0]] if chosen[0] >= 0 else None, met=False)


def _fastest_within(speed: Floats) -> Ints:
    """Return, for each number of configs from none to all, which of the first so many is the fastest; -1 for none."""
    best = [-1]
    for place, value in enumerate(speed):
        best.append(place if best[-1] < 0 or value > speed[best[-1]] else best[-1])
    return np.array(best, dtype=np.int64)
