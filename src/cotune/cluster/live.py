"""Many jobs on one engine in real time: what a policy decides is started, stopped and gone on with.

    jobs ─arrive▶ LiveWorld ─drive▶ policy ─▶ engine ─▶ samples

Loop and policies are those of a simulation (`cluster/loop.py`); only the world is another: its
clock is the engine's, and what a job has done (`live_job`) is what it reports. Whoever keeps the books of the jobs
(`journal`) is told before anything is started or stopped, and may refuse it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cotune.cluster.journal import AfterLoss, Journal, NoJournal, Withdrawn
from cotune.cluster.live_job import Queued, Serving
from cotune.cluster.loop import Moment
from cotune.cluster.next_start import next_start
from cotune.cluster.node_packing import Count, Placer
from cotune.cluster.policy import Active
from cotune.errors import CotuneError
from cotune.identity import new_id
from cotune.run.attempt import ENOUGH, Growing, StopRule
from cotune.run.launch import Ended, Engine, Event, Launch, Reported, Started, checkpoint_seconds
from cotune.run.lease import StillInUse
from cotune.types import Cause, Failure, Job, Sample

_TICK = 0.5
_STOP_SECONDS = 30.0  # for a job to come to a checkpoint when others are to have its workers
_GAPS = 20.0  # times the longest silence of a start so far, before it counts as hanging


class LiveWorld:
    """Jobs that arrive, run and end on an engine; its time stands still between two waits."""

    def __init__(
        self,
        engine: Engine,
        arrivals: Callable[[float], Sequence[Queued] | None],
        folder: Path,
        save: Callable[[Job, Sample], None],
        *,
        engine_name: str,
        journal: Journal | None = None,
        placer: Placer | None = None,
    ) -> None:
        """Take jobs from `arrivals`, which returns those handed in since, or None when no more will be.

        The placer is the one of the loop: it says on which nodes a job stands that is started.
        """
        self._engine, self._arrivals, self._folder, self._save = engine, arrivals, folder, save
        self._engine_name = engine_name
        self._journal: Journal = journal or NoJournal()
        self._placer: Placer = placer or Count()
        self._woken = self._halted = False
        self._begun = engine.now()
        self._now = 0.0
        self._open = True
        self._over: list[Active] = []  # ended while another was being stopped
        self.jobs: dict[int, Serving] = {}
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
        served = self.jobs[active.number]
        if served.withdrawn or self._halted:
            return
        launch, sample = next_start(served, self._placer.held(active), self._engine_name)
        served.stopping = None
        active.ready = self._now + active.restart
        try:
            launch = replace(launch, fence=self._journal.starting(served, launch.config))
            self._engine.start(launch)
        except Withdrawn:
            served.withdrawn = True
            self._leave(served)
            return
        except StillInUse as error:  # it may be tried again
            served.withdrawn, served.failure = True, Failure(str(error))
            self._leave(served)
            return
        except CotuneError as error:  # its own fault: the others go on
            served.failure = Failure(str(error))
            self._leave(served)
            return
        served.heard = None
        served.growing = Growing(launch, self._engine.now(), replace(sample, ended=False))
        self._save(served.queued.job, served.growing.sample)

    def stop(self, active: Active) -> None:
        """Stop a job and wait until it has given back what it held."""
        served = self.jobs[active.number]
        if served.growing is None:  # it has just ended by itself
            return
        self._ask_to_stop(served, "others go first")
        while served.growing is not None:
            self._take(self._engine.wait(_TICK), stopped=served)

    def _ask_to_stop(self, served: Serving, words: str) -> None:
        growing = served.growing
        if growing is None:
            return
        self._journal.stopping(served, words)
        served.stopping = ENOUGH
        grace = checkpoint_seconds(growing.launch.job, _STOP_SECONDS, growing.sample.epoch_seconds)
        self._engine.stop(growing.launch.id, grace)

    def withdraw(self, served: Serving, words: str) -> None:
        """Have a job leave: one that runs comes to a checkpoint first."""
        served.withdrawn = True
        if served.growing is not None:
            self._ask_to_stop(served, words)
        elif served.active.number in self._present:
            self._leave(served)

    def halt(self, words: str) -> None:
        """Stop all jobs at their checkpoints and take no more; they may be gone on with another time."""
        self._open, self._halted = False, True
        for served in self.jobs.values():
            self._ask_to_stop(served, words)
        while any(served.growing is not None for served in self.jobs.values()):
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

    def interrupt(self) -> None:
        """Keep what the jobs under way have measured."""
        for served in self.jobs.values():
            if served.growing is not None:
                self._save(served.queued.job, served.growing.interrupted(self._engine.now()))

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
        for queued in found or ():
            submission = queued.submission
            active = Active(
                submission, self._numbers, submission.seconds, submission.work, queued.spread,
                submission.restart or 0.0, synced=self._now, entered=self._now,
            )  # fmt: skip
            earlier = Path(queued.earlier[-1].folder) if queued.earlier else self._folder / new_id()
            self.jobs[active.number] = Serving(queued, active, queued.folder or earlier)
            self._numbers += 1
            self._present.add(active.number)
            arrived.append(active)
        return arrived

    def _take(self, event: Event | None, stopped: Serving | None = None) -> None:
        """Take in what the engine tells; a job that ended without being stopped leaves."""
        running = {one.growing.launch.id: (one, one.growing) for one in self.jobs.values() if one.growing}
        if event is None or event.launch not in running:
            return
        served, growing = running[event.launch]
        served.heard = self._engine.now()
        if isinstance(event, Started):
            growing.started(event)
        elif isinstance(event, Reported) and growing.told(event):
            self._save(served.queued.job, growing.sample)
        elif isinstance(event, Ended):
            self._ended(served, growing.launch, growing.finish(event, served.stopping), stopped)

    def _ended(self, served: Serving, launch: Launch, sample: Sample, stopped: Serving | None) -> None:
        """Take in the end of a start: a job that was stopped or lost a worker may go on, any other leaves."""
        served.done_before, served.growing = served.done, None
        served.starts.append(sample)
        self._save(served.queued.job, sample)
        lost = sample.failure is not None and sample.failure.cause is Cause.OUTSIDE
        if served.stopping == ENOUGH and (sample.failure is None or lost) and _unfinished(launch, sample):
            self._journal.stopped(served)
            if served is stopped:
                return
        elif lost and sample.failure is not None:
            after = self._journal.lost(served, sample.failure)
            if after is AfterLoss.STARTS:
                self.start(served.active)
                return
            served.withdrawn = after is AfterLoss.WAITS
            served.failure = sample.failure if after is AfterLoss.FAILS else None
        else:
            served.failure = sample.failure
        self._leave(served)

    def _watch(self) -> None:
        """End the starts that have taken all of their epochs, and those that hang."""
        now = self._engine.now()
        for served in self.jobs.values():
            growing = served.growing
            if growing is None or served.stopping is not None:
                continue
            until = StopRule(epochs=growing.launch.epochs, silence=served.queued.silence, gaps=_GAPS)
            served.stopping = growing.reason_to_stop(until, now, served.heard)
            if served.stopping is not None:
                self._engine.stop(growing.launch.id, growing.launch.stop_grace if served.stopping == ENOUGH else 0.0)

    def _leave(self, served: Serving) -> None:
        self._present.discard(served.active.number)
        self._over.append(served.active)


def _unfinished(launch: Launch, sample: Sample) -> bool:
    return not launch.job.meets(launch.target, sample.accuracy) and sample.epochs < launch.epochs
