"""A cluster whose clock jumps from event to event, with every job's truth in its submission.

Policies believe the truth, or the truth times a factor that differs from job to job (`mistaken`):

    believed seconds = true seconds x exp(noise x z),    z standard normal, seeded

The truth is unchanged, so that what differs between two noise levels is the policy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import numpy as np

from cotune.cluster.loop import Moment
from cotune.cluster.policy import Active, Submission
from cotune.cluster.simulate.failures import Outages
from cotune.cluster.work import Believed

Believe = Callable[[Submission, int], Active]
_PATIENCE = 1000


def exactly(job: Submission, number: int) -> Active:
    """Return a job as it arrives, known to the policy as it is."""
    return Active(job, number, job.seconds, job.work)


def mistaken(noise: float, jobs: int, seed: int = 0) -> Believe:
    """Return how jobs arrive when forecasts are off by a factor; policies know how far off they usually are."""
    if noise == 0:
        return exactly
    factors = np.exp(noise * np.random.default_rng(seed).standard_normal(jobs)).tolist()

    def believe(job: Submission, number: int) -> Active:
        factor = factors[number]
        work = None if job.work is None else Believed(job.work, factor)
        total = job.seconds * factor if job.seconds < math.inf else math.inf
        return Active(job, number, total, work, spread=noise)

    return believe


class Simulated:
    """Jobs in order of submission, arriving, running and ending in simulated time."""

    def __init__(
        self,
        jobs: Sequence[Submission],
        believe: Believe = exactly,
        restart: float = 0.0,
        until: float = math.inf,
        outages: Outages | None = None,
    ) -> None:
        self._jobs = jobs
        self._believe = believe
        self._restart = restart
        self._until = until
        self.present: dict[int, Active] = {}
        self._now = 0.0
        self._next = 0
        self._ends: list[tuple[float, int, Active]] = []
        self._due: dict[int, float] = {}  # when each running job ends; what else is in the heap was stopped
        self._alone = 0  # waits in a row that nothing but the policy's own clock ended
        self._finishable = 0  # jobs that are there and would end if they ran
        self._outages = outages
        self._begun: dict[int, float] = {}  # the work done when each running job was started, where nodes may fail

    def now(self) -> float:
        return self._now

    def wait(self, until: float) -> Moment | None:
        jobs, ends = self._jobs, self._ends
        while ends and self._due.get(ends[0][1]) != ends[0][0]:
            heappop(ends)
        arrival = jobs[self._next].submit if self._next < len(jobs) else math.inf
        fails = self._outages.next_at if self._outages else math.inf
        at = min(arrival, ends[0][0] if ends else math.inf, until, fails)
        if at == math.inf or (arrival == math.inf and not self._finishable):
            return None
        self._alone = self._alone + 1 if arrival == math.inf and not ends else 0
        if self._alone > _PATIENCE:
            return None
        if at > self._until:
            self._now = self._until
            return None
        self._now = at = max(at, self._now)
        ended: list[Active] = []
        while ends and ends[0][0] == at:
            _, number, active = heappop(ends)
            if self._due.get(number) == at:
                self._end(active)
                ended.append(active)
        struck = self._strike() if at == fails else ()
        arrived: list[Active] = []
        while self._next < len(jobs) and jobs[self._next].submit == at:
            arrived.append(self._arrive(jobs[self._next]))
        return Moment(arrived, ended, struck)

    def _strike(self) -> list[Active]:
        """Let nodes fail and come back; return who stood on those that failed, less what they had not saved."""
        assert self._outages is not None
        struck = [active for active in self._outages.turn(self._now) if active.number in self.present]
        for active in struck:
            self.sync(active)
            worked = max(self._now - active.ready, 0.0)
            lost = worked % self._outages.failures.checkpoint
            work, begun = active.job.work, self._begun[active.number]
            if work is None:
                active.done = begun + worked - lost
            else:
                assert active.config is not None
                active.done = work.advance(begun, worked - lost, active.config, active.nodes)
            self._outages.count(active, lost)
        return struck

    def _arrive(self, job: Submission) -> Active:
        active = self._believe(job, self._next)
        active.synced = active.entered = self._now
        active.restart = self._restart if job.restart is None else job.restart
        self.present[self._next] = active
        self._next += 1
        self._finishable += _finishable(job)
        return active

    def decline(self, active: Active) -> None:
        active.declined = True
        self._finishable -= _finishable(active.job)
        del self.present[active.number]

    def _end(self, active: Active) -> None:
        self.sync(active)
        del self._due[active.number], self.present[active.number]
        active.done = active.job.seconds if active.job.work is None else active.job.work.total
        self._finishable -= 1

    def start(self, active: Active) -> None:
        active.ready = self._now + active.restart
        job = active.job
        if self._outages:
            self._begun[active.number] = active.done
        if job.work is None:
            left = job.seconds - active.done
        else:
            assert active.config is not None
            left = job.work.seconds(active.done, active.config, active.nodes)
        if left < math.inf:
            self._due[active.number] = end = active.ready + max(left, 0.0)
            heappush(self._ends, (end, active.number, active))

    def stop(self, active: Active) -> None:
        """Forget when it would have ended."""
        self._due.pop(active.number, None)

    def sync(self, active: Active) -> None:
        now, before = self._now, active.synced
        if now == before:
            return
        active.synced = now
        if active.config is None:
            active.waited += now - before
            if active.starts:
                active.starved += now - before
            return
        active.executed += now - before
        active.service += active.held * (now - before)
        begun = max(before, active.ready)
        if now > begun:
            work = active.job.work
            if work is None:
                active.done += now - begun
            else:
                active.done = work.advance(active.done, now - begun, active.config, active.nodes)


def _finishable(job: Submission) -> bool:
    return job.seconds < math.inf if job.work is None else job.work.total < math.inf
