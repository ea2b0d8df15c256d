"""Marginal gain (Optimus): one more GPU to whoever saves the most time by it.

Every job gets one worker, in order of arrival. Then, while some gain is positive and
something is free, one more task goes to the job with the largest

    gain = (Q / f(w) - Q / f(w + 1)) / share of the dominant resource of a task

with Q the work left and f the believed speed. For a job with parameter servers the better
of one more worker and one more server counts. Decisions come in rounds; a job whose size
stays the same is left alone. `whole_epochs` counts only the work after the present epoch, as
the baseline in Pollux's simulator does; jobs in their last epoch then hardly gain.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cotune.schedule import Active, capacity
from cotune.types import Cluster, Config


@dataclass(frozen=True)
class Optimus:
    """Give one task at a time to the job that gains the most time from it."""

    interval: float | None = 600.0
    whole_epochs: bool = False

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        device = cluster.devices[0].name
        free = capacity(cluster)[device]
        given: dict[int, Config] = {}
        ladders = {job.number: ladder(job, self.whole_epochs) for job in active}
        heap: list[tuple[float, int]] = []
        for job in sorted(active, key=lambda job: (ladders[job.number].first, job.number)):
            steps = ladders[job.number]
            if steps.first > free:
                continue
            given[job.number] = steps.configs[0]
            free -= steps.first
            heapq.heappush(heap, (-steps.gain(0), job.number))
        place = dict.fromkeys(given, 0)
        while heap and free > 0:
            gain, number = heapq.heappop(heap)
            steps, at = ladders[number], place[number]
            if gain >= 0:
                break
            more = steps.units(at + 1) - steps.units(at)
            if more > free:
                continue
            place[number] = at + 1
            given[number] = steps.configs[at + 1]
            free -= more
            heapq.heappush(heap, (-steps.gain(at + 1), number))
        names = {job.number: job.job.name for job in active}
        smallest_first = sorted(given, key=lambda number: (place[number], number))
        return {names[number]: given[number] for number in smallest_first}


@dataclass(frozen=True, slots=True)
class Ladder:
    """The configs of a job from the smallest up, and the believed time left in each."""

    configs: Sequence[Config]
    left: Callable[[Config], float]

    @property
    def first(self) -> int:
        return self.units(0)

    def units(self, at: int) -> int:
        return self.configs[at].workers + self.configs[at].servers

    def gain(self, at: int) -> float:
        """Return the seconds saved per unit by the next step up; not positive where there is none."""
        if at + 1 >= len(self.configs):
            return -math.inf
        saved = self.left(self.configs[at]) - self.left(self.configs[at + 1])
        return saved / (self.units(at + 1) - self.units(at))


def ladder(active: Active, whole_epochs: bool = False) -> Ladder:
    """Return the steps a job can take, one task each; a rigid job has one."""
    belief, done = active.belief, active.done
    if belief is None:
        return Ladder((active.job.config,), lambda config: active.left)  # noqa: ARG005
    seconds = belief.seconds_told if whole_epochs else belief.seconds
    configs = belief.configs
    if any(config.servers for config in configs):
        configs = climb(configs, lambda config: seconds(done, config))
    return Ladder(configs, lambda config: seconds(done, config))


def climb(configs: Sequence[Config], left: Callable[[Config], float]) -> tuple[Config, ...]:
    """Return the way up from the smallest config, each step one more worker or one more server, what saves more."""
    known = {(config.servers, config.workers): config for config in configs}
    at = min(known, key=lambda sizes: (sum(sizes), sizes))
    way = [known[at]]
    while steps := [step for step in ((at[0] + 1, at[1]), (at[0], at[1] + 1)) if step in known]:
        at = min(steps, key=lambda step: left(known[step]))
        way.append(known[at])
    return tuple(way)
