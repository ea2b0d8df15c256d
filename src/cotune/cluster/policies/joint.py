"""As many deadlines as can be kept, at the least GPU time, batch and workers together.

Room is promised as late as possible before each deadline (`promises`), so that what is free now stays free for those in
a hurry. Who is promised room is in `ledger`, what everybody then holds in `allocation`. Jobs are of three kinds:

    due         its promise has begun: it holds what was promised, before everybody else
    promised    it may get on before, whoever is due next first, and its promise then begins later
    waiting     no room was found for it yet; it is tried again, the cheapest first, and given up when it can no longer
                be in time. Nobody is turned away at the door.

A deadline kept counts as one whatever the job costs. So no job is promised room, while others wait for some, that needs
more than `widest` of the GPU time that promises leave until its deadline and more than most of them asked for: the
fuller the cluster, the smaller a job has to be (trunk reservation, as telephone networks have against wide calls).
Promises are firm up to `firm` of the GPU time until the deadline; the others are taken back where a newcomer finds no
room otherwise and costs less than 1 / `worth` of what each job would still cost that has to wait for it. Where there is
room for all nothing is taken back; in a crowd the cheap ones are kept, which are more.

Forecasts have a spread s: room is promised for z standard deviations above the forecast,

    z = min(sure, most / s),

so a good forecast is kept for certain, and a vague one (z = 1.2 at s = 0.3) at a risk, since no job books more than
exp(most) times what it is believed to need. For those who wait `fair` deviations have to do: better a chance than none.

A job runs in the cheapest config that ends in time, which is a smaller one once it has got on: the cheapest way to a
deadline between two sizes is a mix of them. Idle GPUs are used only where that costs next to nothing: a step up may
waste at most `slack` of the GPU-seconds the job still needs. What is done early makes room for those to come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from cotune.cluster.allocation import Allocation
from cotune.cluster.candidates import Candidates, Stamp, brought_up_to_date
from cotune.cluster.ledger import Ledger, PromiseTerms, admit
from cotune.cluster.policy import Active
from cotune.cluster.promises import TIGHT, begin, next_change, steps_down, steps_up
from cotune.types import Cluster, Config


class Joint(PromiseTerms):
    """Keep as many deadlines as can be with the least GPU time, taking the width of forecasts into account.

    Chosen on parts of six ITP clusters, two of Pollux's workloads and two of Philly (docs/results-scheduling.md).
    """

    waits: ClassVar[bool] = True  # whoever is not admitted may still find room later

    def admit(self, new: Active, active: Sequence[Active], cluster: Cluster) -> bool:
        """Return whether a job's deadline is promised for certain; it may be kept even if it is not."""
        return new.job.deadline is None or admit(Ledger(self, active, cluster, new), new)

    def gives_up(self, active: Active) -> bool:
        """Return whether a job that has no firm promise can no longer be in time."""
        known: Candidates | None = active.memory
        promise, deadline = active.promise, active.job.deadline
        if deadline is None or known is None or (promise is not None and promise.firm):
            return False
        limit = deadline - active.synced + TIGHT - (0.0 if active.config is not None else active.restart)
        if known.quickest <= limit:
            return False
        return brought_up_to_date(active, known, known.margin, self.hope).quickest > limit

    def patient(self, active: Active) -> bool:
        """Return whether a job may wait for nodes of its own, rather than start now on parts of several."""
        return begin(active) > active.synced + TIGHT

    def level_lasts(self, active: Active) -> float:
        """Return when to decide again at the latest: when a promise turns, or a deadline comes.

        An uncertain job is looked at halfway to its deadline too, but no more often than each `look` of the time it was
        given.
        """
        known: Candidates | None = active.memory
        deadline, now = active.job.deadline, active.synced
        if known is None or deadline is None or deadline <= now:
            return math.inf
        wake = known.wake
        if wake is None or wake.promise is not active.promise or wake.config is not active.config or active.spread:
            wake = known.wake = Stamp(active.promise, active.config, now + self._soonest(active, known))
        soonest = wake.at - now
        soonest = soonest if soonest > TIGHT else math.inf  # that was decided already
        if not active.spread:
            return soonest
        due = deadline - now
        return max(min(soonest, due / 2), min(due, self.look * (due + active.age)))

    def _soonest(self, active: Active, known: Candidates) -> float:
        promise, now = active.promise, active.synced
        if promise is None:
            return active.deadline_left
        turns = next_change(promise, now, active.held, exactly=bool(active.restart)) - now
        if not active.running:
            return turns
        known = brought_up_to_date(active, known, known.margin, self.hope)
        ladder = known.on(promise.device)
        return min(max(turns, steps_up(active, promise, ladder)), steps_down(active, ladder, self.slack))

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        return Allocation(Ledger(self, active, cluster)).configs()
