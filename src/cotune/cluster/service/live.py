"""Many jobs on one engine in real time: what a policy decides is started, stopped and resumed.

A world for the loop of the simulations (`loop`), whose clock is that of what really runs. Its journal keeps the books:
it is asked before anything is started or stopped, and may refuse a start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum

from cotune.cluster.loop import Moment
from cotune.cluster.node_packing import Count, Placer
from cotune.cluster.policy import Active
from cotune.cluster.service.live_job import LiveJob
from cotune.errors import CotuneError
from cotune.run.attempt import ENOUGH, Growing, StopRule
from cotune.run.launch import Ended, Engine, Event, Launch, Reported, Started, checkpoint_seconds
from cotune.run.lease import StillInUse
from cotune.types import Config, Failure, Job, Sample


class Withdrawn(CotuneError):
    """A job that may not be started: somebody has cancelled or held it meanwhile."""


class AfterLoss(Enum):
    """What becomes of a job that has lost workers."""

    FAILS = "fails"
    STARTS = "starts"  # again at once, as it was
    WAITS = "waits"  # for the policy to decide: the cluster is smaller


class Journal:
    """What is noted of live jobs; this one keeps no books, and a job that loses a worker has failed."""

    def starting(self, job: LiveJob, config: Config) -> int | None:  # noqa: ARG002
        """Note a start; return its fencing number, or raise where it may not be."""
        return None

    def stopping(self, job: LiveJob, words: str) -> None:
        """Note that a job is asked to come to a checkpoint."""

    def stopped(self, job: LiveJob) -> None:
        """Note that nothing of a job runs any more, and that it may be started again."""

    def lost(self, job: LiveJob, failure: Failure) -> AfterLoss:  # noqa: ARG002
        """Note that workers were lost; say what becomes of the job."""
        return AfterLoss.FAILS


_TICK = 0.5
_STOP_SECONDS = 30.0  # for a job to come to a checkpoint when others are to have its workers
_GAPS = 20.0  # times the longest silence of a start so far, before it counts as hanging


class LiveWorld:
    """Jobs that arrive, run and end on an engine; its time stands still between two waits."""

    def __init__(
        self,
        engine: Engine,
        arrivals: Callable[[float], Sequence[LiveJob] | None],
        save: Callable[[Job, Sample], None],
        *,
        journal: Journal | None = None,
        placer: Placer | None = None,
    ) -> None:
        """Take jobs from `arrivals`, which returns those submitted since, or None when no more will be.

        The placer is the one of the loop: it says on which nodes a job stands that is started.
        """
        self._engine, self._arrivals, self._save = engine, arrivals, save
        self._journal = journal or Journal()
        self._placer: Placer = placer or Count()
        self._woken = self._halted = False
        self._begun = engine.now()
        self._now = 0.0
        self._open = True
        self._over: list[Active] = []  # ended while another was being stopped
        self.jobs: dict[int, LiveJob] = {}
        self._numbers = 0
        self._present: set[int] = set()

    def now(self) -> float:
        return self._now

    def wait(self, until: float) -> Moment | None:
        while True:
            if self._numbers:
                self._now = max(self._now, min(self._clock(), until))  # a round is at its time, though seen a hair late
            else:  # the first come at 0, where the rounds of a policy begin
                self._begun = self._engine.now()
            arrived = self._arrived()
            ended, self._over = self._over, []
            for active in ended:
                self.sync(active)
            if arrived or ended or self._woken:
                self._woken = False
                return Moment(arrived, ended)
            if not self._present and not self._open:
                return None
            if self._clock() >= until:
                self._now = max(until, self._now) if until < math.inf else self._now
                return Moment([], [])
            self._take(self._engine.wait(min(until - self._clock(), _TICK)))
            self._watch()

    def start(self, active: Active) -> None:
        if active.number not in self._present:  # it came to its end while it was being stopped
            return
        job = self.jobs[active.number]
        if job.withdrawn or self._halted:
            return
        launch, sample = job.next_start(self._placer.held(active))
        job.stopping = None
        active.ready = self._now + active.restart
        try:
            launch = replace(launch, fence=self._journal.starting(job, launch.config))
            self._engine.start(launch)
        except CotuneError as error:  # one that was withdrawn or is still in use may be tried again; the others go on
            job.withdrawn = isinstance(error, Withdrawn | StillInUse)
            job.failure = None if isinstance(error, Withdrawn) else Failure(str(error))
            self._leave(job)
            return
        job.heard = None
        job.growing = Growing(launch, self._engine.now(), replace(sample, ended=False))
        self._save(job.planned.job, job.growing.sample)

    def stop(self, active: Active) -> None:
        """Stop a job and wait until it has given back what it held."""
        job = self.jobs[active.number]
        if job.growing is None:  # it has just ended by itself
            return
        self._ask_to_stop(job, "others go first")
        while job.growing is not None:
            self._take(self._engine.wait(_TICK), stopped=job)

    def _ask_to_stop(self, job: LiveJob, words: str) -> None:
        growing = job.growing
        if growing is None:
            return
        self._journal.stopping(job, words)
        job.stopping = ENOUGH
        grace = checkpoint_seconds(growing.launch.job, _STOP_SECONDS, growing.sample.epoch_seconds)
        self._engine.stop(growing.launch.id, grace)

    def withdraw(self, job: LiveJob, words: str) -> None:
        """Have a job leave: one that runs comes to a checkpoint first."""
        job.withdrawn = True
        if job.growing is not None:
            self._ask_to_stop(job, words)
        elif job.active.number in self._present:
            self._leave(job)

    def halt(self, words: str) -> None:
        """Stop all jobs at their checkpoints and take no more; they may be resumed another time."""
        self._open, self._halted = False, True
        for job in self.jobs.values():
            self._ask_to_stop(job, words)
        while any(job.growing is not None for job in self.jobs.values()):
            self._take(self._engine.wait(_TICK))
        self._present.clear()
        self._over.clear()

    def wake(self) -> None:
        """Have the policy asked again although nothing happened, since the cluster has another size."""
        self._woken = True

    def forget(self, active: Active) -> None:
        """Let go of a job that has left."""
        del self.jobs[active.number]

    def decline(self, active: Active) -> None:
        active.declined = True
        self._present.discard(active.number)

    def sync(self, active: Active) -> None:
        passed, active.synced = self._now - active.synced, self._now
        active.done = self.jobs[active.number].done
        if active.config is None:
            active.waited += passed
            active.starved += passed if active.starts else 0.0
            return
        active.executed += passed
        active.service += active.held * passed

    def _clock(self) -> float:
        return self._engine.now() - self._begun

    def _arrived(self) -> list[Active]:
        found = self._arrivals(self._now) if self._open else None
        self._open = found is not None
        arrived = []
        for job in found or ():
            active = job.active
            active.number, active.synced, active.entered = self._numbers, self._now, self._now
            self.jobs[active.number] = job
            self._numbers += 1
            self._present.add(active.number)
            arrived.append(active)
        return arrived

    def _take(self, event: Event | None, stopped: LiveJob | None = None) -> None:
        """Take in what the engine tells; a job that ended without being stopped leaves."""
        running = {one.growing.launch.id: (one, one.growing) for one in self.jobs.values() if one.growing}
        if event is None or event.launch not in running:
            return
        job, growing = running[event.launch]
        job.heard = self._engine.now()
        if isinstance(event, Started):
            growing.started(event)
        elif isinstance(event, Reported) and growing.told(event):
            self._save(job.planned.job, growing.sample)
        elif isinstance(event, Ended):
            self._ended(job, growing.launch, growing.finish(event, job.stopping), stopped)

    def _ended(self, job: LiveJob, launch: Launch, sample: Sample, stopped: LiveJob | None) -> None:
        """Take in the end of a start: a job that was stopped or lost a worker may go on, any other leaves."""
        job.done_before, job.growing = job.done, None
        job.starts.append(sample)
        self._save(job.planned.job, sample)
        lost = sample.failure is not None and sample.failure.from_outside
        if job.stopping == ENOUGH and (sample.failure is None or lost) and _unfinished(launch, sample):
            self._journal.stopped(job)
            if job is stopped:
                return
        elif lost and sample.failure is not None:
            after = self._journal.lost(job, sample.failure)
            if after is AfterLoss.STARTS:
                self.start(job.active)
                return
            job.withdrawn = after is AfterLoss.WAITS
            job.failure = sample.failure if after is AfterLoss.FAILS else None
        else:
            job.failure = sample.failure
        self._leave(job)

    def _watch(self) -> None:
        """End the starts that have taken all of their epochs, and those that hang."""
        now = self._engine.now()
        for job in self.jobs.values():
            growing = job.growing
            if growing is None or job.stopping is not None:
                continue
            until = StopRule(epochs=growing.launch.epochs, silence=job.planned.silence, gaps=_GAPS)
            job.stopping = growing.reason_to_stop(until, now, job.heard)
            if job.stopping is not None:
                self._engine.stop(growing.launch.id, growing.launch.stop_grace if job.stopping == ENOUGH else 0.0)

    def _leave(self, job: LiveJob) -> None:
        self._present.discard(job.active.number)
        self._over.append(job.active)


def _unfinished(launch: Launch, sample: Sample) -> bool:
    return not launch.job.meets(launch.target, sample.accuracy) and sample.epochs < launch.epochs
