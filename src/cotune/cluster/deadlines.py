"""Sharing a cluster over time so that deadlines are met: earliest deadline first, the least that suffices.

Time until the last deadline is cut at every deadline, and where a job of the plan ends. Going by
deadline, each job gets the smallest share k with which it ends in time, taking in each stretch the
largest of its configs within k and within what earlier deadlines left free. A job that no share
saves gets what is left, as soon as possible (ElasticFlow's progressive filling).

Reference: Gu et al., ElasticFlow: an elastic serverless training platform, ASPLOS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from cotune.cluster.options import Options
from cotune.cluster.policy import Active
from cotune.types import Config, Floats, Ints

_MOMENT = 0.1  # seconds: decisions come a hair late, thousands of times in a crowd
Column = TypeVar("Column", Ints, Floats)


@dataclass(frozen=True)
class Share:
    """What a job gets now under a plan that meets its deadline, or does not."""

    active: Active
    config: Config | None
    met: bool


def fill(active: Sequence[Active], gpus: int, options: Callable[[Active], Options]) -> Iterator[Share]:
    """Yield the shares of jobs with deadlines, in order of their deadlines."""
    urgent = [job for job in active if math.isfinite(job.deadline_left)]
    urgent.sort(key=lambda job: (job.deadline_left, job.number))
    room = _Room(np.unique([_limit(job) for job in urgent]) if urgent else np.zeros(0), gpus)
    return (_share(job, room, options(job)) for job in urgent)


def _limit(job: Active) -> float:
    """Return when a job is to end: a moment before its deadline, since sums of seconds are not exact."""
    return max(job.deadline_left - _MOMENT, 0.0)


class _Room:
    """What is free over time: so many units until each of some ends."""

    def __init__(self, ends: Floats, gpus: int) -> None:
        self.ends = ends
        self.lasts = np.diff(ends, prepend=0.0)
        self.free = np.full(len(ends), gpus, dtype=np.int64)

    def cut(self, end: float) -> None:
        """Let a stretch end at a time."""
        place = int(self.ends.searchsorted(end - 1e-6))
        if place == len(self.ends) or self.ends[place] <= end + 1e-6 or end <= 1e-6:
            return
        self.ends = _twice(self.ends, place)
        self.ends[place] = end
        self.free = _twice(self.free, place)
        self.lasts = _twice(self.lasts, place)
        self.lasts[place] = end - (self.ends[place - 1] if place else 0.0)
        self.lasts[place + 1] = self.ends[place + 1] - end

    def end(self, options: Options, chosen: Ints) -> tuple[int, float]:
        """Return the stretch in which a job ends and how much of it is left then; the last and -inf if it does not."""
        pace = options.speed[chosen]
        done = np.maximum.accumulate(np.cumsum(pace * options.working(chosen, self.lasts[: len(chosen)])))
        last = int(done.searchsorted(1.0 - 1e-9))
        if last == len(done):
            return last - 1, -math.inf
        return last, max((done[last] - 1.0) / pace[last], 0.0)

    def take(self, options: Options, chosen: Ints) -> None:
        """Take the chosen in each stretch until the job ends, or for all."""
        last, surplus = self.end(options, chosen)
        if surplus > 1e-6:
            self.cut(self.ends[last] - surplus)
        self.free[: last + 1] -= options.units[chosen[: last + 1]]


def _twice(column: Column, place: int) -> Column:
    """Return a column with the value at a place told twice."""
    return np.concatenate([column[: place + 1], column[place:]])


def _share(job: Active, room: _Room, options: Options) -> Share:
    """Return a job's share, and take it from what is free."""
    if not len(room.ends):
        return Share(job, None, met=False)
    last = int(room.ends.searchsorted(_limit(job) - 1e-9)) + 1 if _limit(job) > 0 else 0
    chosen = options.within(np.minimum(room.free[:last], options.sizes[:, None]))
    done = (options.speed[chosen] * options.working(chosen, room.lasts[:last])).sum(axis=1)
    enough = (done >= 1.0 - 1e-9).nonzero()[0]
    if not len(enough):
        rest = options.within(room.free)
        room.take(options, rest)
        return Share(job, options.configs[rest[0]], met=False)
    found = chosen[enough[0]]
    room.take(options, found)
    return Share(job, options.configs[found[0]], met=True)
