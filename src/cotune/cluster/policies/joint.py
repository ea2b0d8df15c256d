"""The cheapest set of plans that meets every target and deadline, batch and workers together.

A job's target fixes the work that is left in each config (with a choice of batch, the epochs
to the target differ, see the job's `Work`), its deadline the time. Among the configs of each
share only the cheapest in GPU-seconds can be of use; earliest-deadline-first filling with
these gives every job the least that suffices, and one step less from the time on at which that
still ends in time: the cheapest way to a deadline between two sizes is a mix of them.

Forecasts have a spread s: a job counts as met if it ends in time z standard deviations above the forecast,

    z = min(sure, most / s),

so a good forecast is kept for certain, and a vague one (z = 1.2 at s = 0.3) at a risk, since no job books
more than exp(most) times what it is believed to need. A plan that meets all deadlines is a promise. It is
replaced only by plans that meet all deadlines too. Whoever overruns so much that it comes to be late in the plan keeps
what it was promised and gets what those in time leave besides, and newcomers are admitted where
they make nobody late. A promise is looked at again
whenever it asks for more or less, and when half of the time to the deadline is gone.

A forecast counts on as few nodes as can hold a config. Where GPUs are on nodes a job therefore gets whole nodes, or
a part that divides one: jobs of other sizes leave rests on which the next one stands torn apart, and is slower than
it was promised (ElasticFlow allots powers of two for this reason).

While others are there no job is taken on that needs more than `widest` of the GPU time that their promises leave
until its deadline, and more than most of them asked for: the fuller the cluster, the smaller a job has to be, as a
large one would turn away many (trunk reservation, as telephone networks have against wide calls). On nodes all GPU
time until its deadline counts, promised or not: many small jobs would hold a part of every node, and tear others apart.

Idle GPUs are used only where that costs next to nothing: a step up may waste at most
`slack` of the GPU-seconds the job still needs. What is done early makes room for those to come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from cotune.bounds import Fraction, NotNegative, Positive, Whole
from cotune.cluster.deadlines import Share, fill
from cotune.cluster.options import Options, cautious, choices, packing, seconds_left
from cotune.cluster.policy import Active, capacity
from cotune.types import Cluster, Config

_HAIR = 1e-5  # seconds, more than sums of seconds are off by


@dataclass(frozen=True)
class Joint:
    """Meet every deadline with the least GPU time, taking the width of forecasts into account."""

    sure: NotNegative = 2.75
    most: Fraction = 0.35
    slack: NotNegative = 0.3
    widest: Fraction = 1 / 2
    repairs: Whole = 4
    look: Positive = 0.01

    def admit(self, new: Active, active: Sequence[Active], cluster: Cluster) -> bool:
        """Return whether all deadlines can be kept with it, and whether it leaves enough to those to come."""
        if new.job.deadline is None:
            return True
        needs = {config: self._needs(new, config) for config in _allowed(new, cluster)}
        limit = new.deadline_left - new.restart
        costs = [config.units * seconds for config, seconds in needs.items() if seconds <= limit]
        if not costs or self._crowds_out(min(costs), new, active, cluster):
            return False
        plan = self._plan(active, cluster)
        late = set(_late(plan))
        if late and late - set(_late(self._plan([job for job in active if job is not new], cluster))):
            return False
        _promise(plan)
        return True

    def _crowds_out(self, cost: float, new: Active, active: Sequence[Active], cluster: Cluster) -> bool:
        """Return whether a job takes a large part of what there is, and is larger than most who are there."""
        others = [job for job in active if job is not new]
        if not others:
            return False
        there = sum(capacity(cluster).values()) * new.deadline_left
        if not any(device.per_node for device in cluster.devices):
            due = new.synced + new.deadline_left
            there -= sum(job.promise.held(new.synced, due) for job in others if job.promise)
        return cost > max(self.widest * there, median(job.job.gpus * job.total for job in others))

    def level_lasts(self, active: Active) -> float:
        """Return when to decide again at the latest: where its promise turns, or halfway to its deadline.

        That is a hair after the turn, when a job that is known to end there has ended: an instant before, it would
        have to let go of its units, and start again for nothing. An uncertain job looks no more often than each
        `look` of the time it was given.
        """
        due, promise = active.deadline_left, active.promise
        turns = [end - active.synced for end in (promise.ends if promise else ()) if end - active.synced > 1e-6]
        left = [due / 2, *turns] if active.spread else [due, *(seconds + _HAIR for seconds in turns)]
        soonest = min((seconds for seconds in left if seconds > 1e-6), default=math.inf)
        if not active.spread or not 0 < due < math.inf:
            return soonest
        return max(soonest, min(due, self.look * (due + active.age)))

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        free = sum(capacity(cluster).values())
        given: dict[int, Config] = {}
        shares = self._plan(active, cluster)
        _promise(shares)
        for share in shares:
            if share.config is not None and share.config.units <= free:
                given[share.active.number] = share.config
                free -= share.config.units
        idle = [share.active for share in shares] + [job for job in active if job.job.deadline is None]
        for job in sorted(idle, key=lambda job: (job.deadline_left, job.number)):
            config = self._thrifty(job, given.get(job.number), free, cluster)
            if config is not None:
                free -= config.units - (given[job.number].units if job.number in given else 0)
                given[job.number] = config
        # who needs the most nodes chooses them first
        starts = sorted((job for job in active if job.number in given), key=lambda job: -given[job.number].units)
        return {job.job.name: given[job.number] for job in starts}

    def _plan(self, active: Sequence[Active], cluster: Cluster) -> list[Share]:
        """Return the least shares that meet all deadlines, or those by which as few as can be are late.

        What was promised is a plan too, followed until now: it holds where small shares, which last longer,
        have come to stand in the way of others. Where a new job makes both fail, those that would miss
        their deadlines choose first in the next attempt. Where all fail promises are kept, and whoever
        is late with what was promised chooses last.
        """
        gpus = sum(capacity(cluster).values())
        options = cache(lambda job: Options.of(job, _allowed(job, cluster), self._needs))
        first: list[int] = []
        for promised in (False, True, *[False] * self.repairs):
            plan = fill(active, gpus, options, first=first, promised=promised, relaxed=True)
            late = _late(plan)
            if not late:
                return plan
            if not promised:
                first = [*late, *(number for number in first if number not in late)]
        behind: set[int] = set()
        while True:
            plan = fill(active, gpus, options, last=behind, promised=True, relaxed=True)
            if behind.issuperset(_late(plan)):
                return plan
            behind.update(_late(plan))

    def _needs(self, job: Active, config: Config) -> float:
        return cautious(job, config, self.margin(job.spread)) if job.spread else seconds_left(job, config)

    def margin(self, spread: float) -> float:
        """Return the standard deviations above a forecast that are set aside for it."""
        return min(self.sure, self.most / spread)

    def _thrifty(self, job: Active, config: Config | None, free: int, cluster: Cluster) -> Config | None:
        """Return the fastest config in reach that wastes little, or None to leave things as they are."""
        held = 0 if config is None else config.units
        lasts = {one: _with_start(job, one) for one in _allowed(job, cluster)}
        reach = [one for one in lasts if one.units <= held + free]
        if not reach:
            return None
        least = min(one.units * seconds for one, seconds in lasts.items())
        thrifty = [one for one in reach if one.units * lasts[one] <= (1.0 + self.slack) * least]
        if config is not None:
            thrifty = [one for one in thrifty if lasts[one] < _with_start(job, config) * (1 - 1e-9)]
        if not thrifty:
            return None if config is not None else min(reach, key=lambda one: one.units * lasts[one])
        return min(thrifty, key=lambda one: (lasts[one], one.units))


def _allowed(job: Active, cluster: Cluster) -> Sequence[Config]:
    """Return what a job may run in: any batch, on GPUs that leave the nodes whole for others."""
    return packing(choices(job, any_batch=True), cluster)


def _late(plan: Sequence[Share]) -> list[int]:
    """Return the numbers of those who miss their deadlines under a plan."""
    return [share.active.number for share in plan if not share.met]


def _promise(plan: Sequence[Share]) -> None:
    """Hold a plan against all to come; whoever is late in it keeps what it was promised before."""
    for share in plan:
        share.active.promise = share.promise or share.active.promise


def _with_start(job: Active, config: Config) -> float:
    """Return the believed seconds to the end in a config, and of getting to work in it."""
    return seconds_left(job, config) + (0.0 if config == job.config else job.restart)
