"""The cheapest set of plans that meets every target and deadline, batch and workers together.

A job's target fixes the work that is left in each config (with a choice of batch, the epochs
to the target differ, see the job's `Work`), its deadline the time. Among the configs of each
share only the cheapest in GPU-seconds can be of use; earliest-deadline-first filling with
these gives every job the least that suffices, and one step less from the time on at which that
still ends in time: the cheapest way to a deadline between two sizes is a mix of them.

Forecasts have a spread s: a job counts as met if it ends in time z standard deviations above the forecast,
so a wide forecast buys more GPUs early, and gives them back as the end comes into sight. A wider margin
costs room, exp(z s) times the job's GPU time, and saves a deadline with the chance that it is needed. A deadline
that is `worth` times the job's GPU time is best kept by the z at which one more step costs what it saves,

    s exp(z s) = worth phi(z),    z = sqrt(s^2 + 2 ln(worth / (s sqrt(2 pi)))) - s

(2.9 at s = 0.01, 1.9 at 0.1, 1.1 at 0.3): a sure forecast is kept for certain, a vague one at a calculated risk.
Every plan that meets all deadlines is a promise: it is kept to where the next one would break it,
and decided anew whenever it asks for more or less, so what was admitted stays in time.

While others are there no job is taken on that needs more than `widest` of the whole cluster until its
deadline and more than most of them asked for: it would turn away many (trunk reservation, as telephone
networks have against wide calls).

Idle GPUs are used only where that costs next to nothing: a step up may waste at most
`slack` of the GPU-seconds the job still needs. What is done early makes room for those to come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from cotune.schedule import Active, capacity, units
from cotune.schedule._deadlines import Share, fill
from cotune.schedule._options import Options, cautious, choices, seconds_left
from cotune.types import Cluster, Config


@dataclass(frozen=True)
class Joint:
    """Meet every deadline with the least GPU time, taking the width of forecasts into account."""

    worth: float = 2.0
    slack: float = 0.3
    widest: float = 1 / 2
    repairs: int = 4

    def admit(self, new: Active, active: Sequence[Active], cluster: Cluster) -> bool:
        """Return whether all deadlines can be kept with it, and whether it leaves enough to those to come."""
        if new.job.deadline is None:
            return True
        gpus = sum(capacity(cluster).values())
        needs = {config: self._needs(new, config) for config in choices(new, any_batch=True)}
        limit = new.deadline_left - new.restart
        costs = [units(config) * seconds for config, seconds in needs.items() if seconds <= limit]
        if not costs or self._crowds_out(min(costs), new, active, gpus):
            return False
        return all(share.met for share in self._plan(active, gpus))

    def _crowds_out(self, cost: float, new: Active, active: Sequence[Active], gpus: int) -> bool:
        """Return whether a job takes a large part of the cluster, and is larger than most who are there."""
        others = [job.job.gpus * job.total for job in active if job is not new]
        return bool(others) and cost > max(self.widest * gpus * new.deadline_left, median(others))

    def level_lasts(self, active: Active) -> float:
        """Return when to decide again at the latest: at its deadline, and where its promise asks for more or less."""
        turns = () if active.promise is None else active.promise.ends
        left = (end - active.synced for end in (*turns, active.synced + active.deadline_left))
        return min((seconds for seconds in left if seconds > 1e-6), default=math.inf)

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        free = sum(capacity(cluster).values())
        given: dict[int, Config] = {}
        shares = self._plan(active, free)
        for share in shares:
            if share.config is not None and units(share.config) <= free:
                given[share.active.number] = share.config
                free -= units(share.config)
        idle = [share.active for share in shares] + [job for job in active if job.job.deadline is None]
        for job in sorted(idle, key=lambda job: (job.deadline_left, job.number)):
            config = self._thrifty(job, given.get(job.number), free)
            if config is not None:
                free -= units(config) - (units(given[job.number]) if job.number in given else 0)
                given[job.number] = config
        return {job.job.name: given[job.number] for job in active if job.number in given}

    def _plan(self, active: Sequence[Active], gpus: int) -> list[Share]:
        """Return the least shares that meet all deadlines, or as many as can be.

        What was promised is a plan too, followed until now: it holds where small shares, which last longer,
        have come to stand in the way of others. Where a new job makes both fail, those that would miss
        their deadlines choose first in the next attempt.
        """
        options = cache(lambda job: Options.of(job, self._needs, any_batch=True))
        best: list[Share] = []
        first: list[int] = []
        for promised in (False, True, *[False] * self.repairs):
            plan = fill(active, gpus, options, first=first, promised=promised, relaxed=True)
            unmet = [share.active.number for share in plan if not share.met]
            if not unmet:
                for share in plan:
                    share.active.promise = share.promise
                return plan
            if not best or len(unmet) < sum(not share.met for share in best):
                best = plan
            if not promised:
                first = [*unmet, *(number for number in first if number not in unmet)]
        return best

    def _needs(self, job: Active, config: Config) -> float:
        return cautious(job, config, self.margin(job.spread)) if job.spread else seconds_left(job, config)

    def margin(self, spread: float) -> float:
        """Return the standard deviations above a forecast from which on more margin costs more than it saves."""
        exceeded = math.log(self.worth / (math.sqrt(2.0 * math.pi) * spread))
        return math.sqrt(max(spread**2 + 2.0 * exceeded, spread**2)) - spread

    def _thrifty(self, job: Active, config: Config | None, free: int) -> Config | None:
        """Return the fastest config in reach that wastes little, or None to leave things as they are."""
        held = 0 if config is None else units(config)
        lasts = {one: _with_start(job, one) for one in choices(job, any_batch=True)}
        reach = [one for one in lasts if units(one) <= held + free]
        if not reach:
            return None
        least = min(units(one) * seconds for one, seconds in lasts.items())
        thrifty = [one for one in reach if units(one) * lasts[one] <= (1.0 + self.slack) * least]
        if config is not None:
            thrifty = [one for one in thrifty if lasts[one] < _with_start(job, config) * (1 - 1e-9)]
        if not thrifty:
            return None if config is not None else min(reach, key=lambda one: units(one) * lasts[one])
        return min(thrifty, key=lambda one: (lasts[one], units(one)))


def _with_start(job: Active, config: Config) -> float:
    """Return the believed seconds to the end in a config, and of getting to work in it."""
    return seconds_left(job, config) + (0.0 if config == job.config else job.restart)
