"""Marginal gain (Optimus): one more GPU to whoever saves the most time by it.

Every job gets one worker, in order of arrival. Then, while some gain is positive and
something is free, one more task goes to the job with the largest

    gain = (Q / f(w) - Q / f(w + 1)) / share of the dominant resource of a task

with Q the work left and f the believed speed. For a job with parameter servers the better
of more workers and more servers counts, and of several batches the fastest; what a server is worth
depends on how evenly the blocks of the model can be shared out (`parameter_servers`). Decisions come
in rounds; a job whose size stays the same is left alone. `whole_epochs` counts only the work after the
present epoch, as the baseline in Pollux's simulator does; jobs in their last epoch then hardly gain.

Reference: Peng et al., Optimus: an efficient dynamic resource scheduler for deep learning clusters, EuroSys 2018.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

from cotune.bounds import Interval
from cotune.cluster.policy import Active, capacity
from cotune.types import Cluster, Config


@dataclass(frozen=True)
class Optimus:
    """Give one task at a time to the job that gains the most time from it."""

    interval: Interval | None = 600.0
    whole_epochs: bool = False

    one_kind: ClassVar[bool] = True  # of device

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        device = cluster.devices[0].name
        free = capacity(cluster)[device]
        given: dict[int, Config] = {}
        ladders = {job.number: ladder(job, self.whole_epochs) for job in active}
        heap: list[tuple[float, int]] = []
        for job in sorted(active, key=lambda job: (ladders[job.number].units, job.number)):
            steps = ladders[job.number]
            if steps.units > free:
                continue
            given[job.number] = steps.config
            free -= steps.units
            heapq.heappush(heap, (-steps.look(), job.number))
        while heap and free > 0:
            gain, number = heapq.heappop(heap)
            steps = ladders[number]
            if gain >= 0:
                break
            if steps.more > free:
                continue
            free -= steps.more
            given[number] = steps.climb()
            heapq.heappush(heap, (-steps.look(), number))
        names = {job.number: job.job.name for job in active}
        smallest_first = sorted(given, key=lambda number: (ladders[number].at, number))
        return {names[number]: given[number] for number in smallest_first}


@dataclass(slots=True)
class Ladder:
    """The configs of a job from the smallest up, and where on them it stands in one decision."""

    configs: Sequence[Config]
    left: Callable[[Config], float]  # believed seconds to the end
    at: int = 0
    units: int = field(init=False)
    more: int = 0  # units that the next step adds
    _now: float = field(init=False)
    _next: float = math.nan

    def __post_init__(self) -> None:
        self.units = self.config.units
        self._now = self.left(self.config)

    @property
    def config(self) -> Config:
        return self.configs[self.at]

    def look(self) -> float:
        """Return the seconds saved per unit by the next step up; not positive where there is none."""
        if self.at + 1 >= len(self.configs):
            return -math.inf
        above = self.configs[self.at + 1]
        self.more = above.units - self.units
        self._next = self.left(above)
        return (self._now - self._next) / self.more if self._next < self._now else 0.0

    def climb(self) -> Config:
        """Take the step last looked at."""
        self.at, self.units, self._now = self.at + 1, self.units + self.more, self._next
        return self.config


def ladder(active: Active, whole_epochs: bool) -> Ladder:
    """Return the steps a job can take, one task each; a rigid job has one."""
    belief, done = active.belief, active.done
    if belief is None:
        return Ladder((active.job.config,), lambda _: active.left)
    seconds = belief.seconds_after_epoch if whole_epochs else belief.seconds
    configs = climb(belief.configs, lambda config: seconds(done, config))
    return Ladder(configs, lambda config: seconds(done, config))


def climb(configs: Sequence[Config], left: Callable[[Config], float]) -> tuple[Config, ...]:
    """Return the way up from the smallest config: each step more workers or more servers, what saves more per unit.

    Of several configs with as many of both (other batches, other axes) the fastest counts.
    """
    if _is_way_up(configs):
        return tuple(configs)
    known: dict[tuple[int, int], Config] = {}
    for config in configs:
        sizes = (config.servers, config.workers)
        if sizes not in known or left(config) < left(known[sizes]):
            known[sizes] = config
    at = min(known, key=lambda sizes: (sum(sizes), sizes))
    way = [known[at]]
    while steps := _above(at, known):
        now, size = left(known[at]), sum(at)
        at = max(steps, key=lambda step: (now - left(known[step])) / (sum(step) - size))
        way.append(known[at])
    return tuple(way)


def _is_way_up(configs: Sequence[Config]) -> bool:
    """Return whether configs differ in nothing but workers, and are in order: nothing is left to choose."""
    return all(one.workers < other.workers and one.servers == other.servers for one, other in pairwise(configs))


def _above(at: tuple[int, int], known: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the sizes that are one step up: the next number of servers, and the next number of workers."""
    servers, workers = at
    more = (
        [sizes for sizes in known if sizes[0] > servers and sizes[1] == workers],
        [sizes for sizes in known if sizes[0] == servers and sizes[1] > workers],
    )
    return [min(sizes) for sizes in more if sizes]
