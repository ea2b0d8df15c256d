"""Between the queue and the live world: who arrives, what is noted of each job, and what becomes of it.

    queue ─events▶ Bookkeeper ─arrivals▶ LiveWorld ─▶ drive ─left▶ Bookkeeper ─▶ queue

Every note is a transaction in the leader's term. The queue is followed by its events, so that ten thousand jobs that
wait cost nothing while nothing happens to them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cotune.checkpoints import has_checkpoint
from cotune.cli.remedies import explained
from cotune.cluster.live import LiveWorld, Queued, Serving, Withdrawn
from cotune.cluster.policy import Active, Policy
from cotune.cluster.service import states
from cotune.cluster.service.belief import SLOT, Belief
from cotune.cluster.service.forecasts import Remaining, spans
from cotune.cluster.service.outcomes import outcome_of, result_document
from cotune.cluster.service.preparers import Preparers, run_folder
from cotune.cluster.service.queue import Queue, QueuedJob, QueueEvent
from cotune.cluster.service.recovery import completed
from cotune.cluster.service.states import STARTED, IllegalMove, State
from cotune.errors import CotuneError
from cotune.types import Cluster, Config, Device, Failure, Job, Sample
from cotune.units import duration

Log = Callable[..., None]
_OPEN = (State.QUEUED, State.PROFILING, State.WAITING, State.RUNNING, State.STOPPING)


@dataclass(frozen=True)
class ServiceTerms:
    """How the service goes about it; chosen by hand, none is measured."""

    look: float = 0.3  # seconds between two looks at the queue
    forecast: float = 3.0  # seconds between two forecasts of when jobs end
    most_forecast: int = 300  # jobs that are forecast at a time
    most_at_once: int = 1000  # jobs that a policy decides about at a time
    restarts: int = 5  # after lost workers, without an evaluation more than before
    most_restarts: int = 100
    preparations: int = 5  # tries to measure a job whose measuring process was killed


TERMS = ServiceTerms()


class Bookkeeper:
    """What the leader knows of the jobs, and writes of them."""

    def __init__(
        self,
        queue: Queue,
        term: int,
        *,
        policy: Callable[[], Policy],
        slots: int,
        preparers: Preparers,
        log: Log,
        terms: ServiceTerms = TERMS,
    ) -> None:
        self._queue, self._term, self._policy, self._log, self._terms = queue, term, policy, log, terms
        self.slots, self._preparers = slots, preparers
        self.world: LiveWorld | None = None
        self._seen = 0  # events
        self._looked = self._forecast = -math.inf
        self._handed: dict[str, Belief] = {}  # jobs in the world
        self._open: dict[str, QueuedJob] = {}  # those that wait to be prepared or handed over, as last read
        self._tries: dict[str, int] = {}
        self._best_effort: set[str] = set()
        self._trained: dict[str, float] = {}  # epochs at the last loss of workers
        self._fruitless: dict[str, int] = {}

    def begin(self) -> None:
        """Take over: what ran under another leader is ended or put back, and goes on from its checkpoint."""
        self._seen = self._queue.last_event()
        for job in self._queue.jobs(states=_OPEN):
            found = completed(self._queue.store, job) if job.state in STARTED else None
            if found is not None:
                served, belief = found
                self._conclude(job, served, belief)
                continue
            words = "found again: the service before has ended"
            back = self._change(job.id, states.put_back, words) if job.state in STARTED else job
            if not back.is_final:
                self._open[job.id] = back

    def end(self) -> None:
        """Put back those whose measuring was cut short."""
        for job in self._queue.jobs(states=[State.PROFILING]):
            self._change(job.id, states.put_back, "its measuring was ended: the service went down")
        self._follow()

    @property
    def whole(self) -> Cluster:
        """Return all slots there are."""
        return Cluster((Device(SLOT, self.slots),))

    @property
    def free(self) -> Cluster:
        """Return the slots that are not set aside for measuring."""
        return Cluster((Device(SLOT, max(self.slots - self._preparers.reserved, 0)),))

    @property
    def is_idle(self) -> bool:
        """Say whether no job is left that could still go on; who is held does not count."""
        waiting = any(not job.standing.held for job in self._open.values())
        return not (self._handed or self._preparers.ids or waiting)

    def arrivals(self) -> list[Queued]:
        """Look at the queue, now and then: follow what was asked, go on preparing, and return who arrives."""
        now = time.monotonic()
        if now < self._looked + self._terms.look:
            return []
        self._looked = now
        self._follow()
        self._prepare()
        arriving = self._arriving()
        if now >= self._forecast + self._terms.forecast:
            self._forecast = now
            self._tell_when()
        return arriving

    def _follow(self) -> None:
        """Take in what others have asked since."""
        events = self._queue.events(after=self._seen)
        if not events:
            return
        self._seen = events[-1].number
        jobs = self._queue.jobs(ids={event.job for event in events})
        self._tell(events, {job.id: job.name for job in jobs})
        for job in jobs:
            self._open.pop(job.id, None)
            if not job.is_final and job.state in (State.QUEUED, State.WAITING):
                self._open[job.id] = job
            if job.id in self._handed and (job.is_final or job.standing.held or job.standing.cancelling):
                self._withdraw(job)
            if job.id in self._preparers.ids and (job.state is State.STOPPING or job.is_final):
                self._preparers.stop(job.id)

    def _tell(self, events: Sequence[QueueEvent], names: Mapping[str, str]) -> None:
        """Log what happened to jobs, whoever did it."""
        for event in events:
            facts = {"state": event.state.value, "fence": event.fence, "words": event.words}
            self._log("job", job=event.job, name=names[event.job], number=event.number, **facts)

    def _withdraw(self, job: QueuedJob) -> None:
        assert self.world is not None
        for served in self.world.jobs.values():
            if served.active.job.name == job.id and not served.withdrawn:
                self.world.withdraw(served, job.reason)

    def _prepare(self) -> None:
        """Reap those that measure and plan, and begin with the next."""
        before = self._preparers.reserved
        for job, code in self._preparers.ended():
            self._prepared(job, code)
        while self._preparers.has_room:
            waiting = [
                job
                for job in self._open.values()
                if job.state is State.QUEUED and not job.standing.held and job.id not in self._preparers.ids
            ]
            if not waiting:
                break
            self._begin_to_prepare(min(waiting, key=lambda job: (-job.priority, job.number)))
        if self._preparers.reserved != before and self.world is not None:
            self.world.wake()

    def _begin_to_prepare(self, job: QueuedJob) -> None:
        del self._open[job.id]
        held = sum(served.active.held for served in self.world.jobs.values()) if self.world else 0
        try:
            folder = run_folder(job)
            self._change(
                job.id,
                lambda standing: states.moved(standing, State.PROFILING),
                "read, to be measured and planned",
                folder=str(folder),
            )
            self._preparers.begin(job, self.slots - held)
        except IllegalMove:
            return
        except (CotuneError, OSError) as error:
            words = explained(error) if isinstance(error, CotuneError) else f"cannot be prepared: {error}"
            self._change(job.id, lambda standing: states.moved(standing, State.FAILED), words)

    def _prepared(self, job: QueuedJob, code: int) -> None:
        """Take in that a preparation ended; one that wrote nothing is tried again a few times."""
        after = self._queue.get(job.id)
        if after.state not in (State.PROFILING, State.STOPPING):
            return
        asked = after.state is State.STOPPING
        self._tries[job.id] = self._tries.get(job.id, 0) + (0 if asked else 1)
        if not asked and self._tries[job.id] >= self._terms.preparations:
            words = f"measuring it ended {self._tries[job.id]} times without a word (exit status {code})"
            self._change(job.id, lambda standing: states.moved(standing, State.FAILED), words)
            return
        self._change(job.id, states.put_back, after.reason if asked else f"its measuring was ended (status {code})")

    def _arriving(self) -> list[Queued]:
        room = self._terms.most_at_once - len(self._handed)
        waiting = [
            job
            for job in self._open.values()
            if job.state is State.WAITING and not job.standing.held and job.id not in self._handed
        ]
        found = []
        for job in sorted(waiting, key=lambda job: (-job.priority, job.number))[: max(room, 0)]:
            del self._open[job.id]
            try:
                found.append(self._queued(job))
            except (CotuneError, ValueError, KeyError, TypeError) as error:
                self._change(job.id, lambda standing: states.moved(standing, State.FAILED), f"unreadable plan: {error}")
        return found

    def _queued(self, job: QueuedJob) -> Queued:
        """Return a job as the world takes it, its deadline on the world's clock."""
        assert self.world is not None
        assert job.belief is not None
        belief = Belief.of(job.belief)
        self._handed[job.id] = belief
        since = self._queue.now() - job.submitted
        submit = self.world.now() - since
        best_effort = job.deadline is None or job.id in self._best_effort
        submission = belief.submission(
            job.id,
            submit=submit,
            deadline=None if best_effort or job.deadline is None else submit + job.deadline,
            team=job.team,
            priority=job.priority,
        )
        folder = run_folder(job)
        earlier = earlier_starts(self._queue, belief.job, folder)
        return Queued(
            belief.job,
            replace(belief.goal, deadline=job.deadline),
            submission,
            belief.needed,
            belief.spread,
            earlier=earlier,
            silence=belief.silence,
            stop_grace=belief.stop_grace,
            device=belief.wants.device,
            engine=belief.engine,
            folder=folder,
            promised=bool(earlier),
        )

    def engine_of(self, folder: Path) -> tuple[str, Mapping[str, Any]]:
        """Return the engine of the job whose files are in a folder."""
        belief = self._handed[folder.name]
        return belief.engine, belief.engine_settings

    def starting(self, served: Serving, config: Config) -> int | None:
        words = f"{config}" + (f", going on from {served.done:.0%}" if served.done > 0 else "")
        try:
            job = self._change(
                _id(served), lambda standing: states.begun(standing, State.RUNNING), words, workers=config.units
            )
        except IllegalMove as error:
            raise Withdrawn(str(error)) from None
        return job.standing.fence

    def stopping(self, served: Serving, words: str) -> None:
        job = self._queue.get(_id(served))
        if job.state is State.RUNNING:
            self._change(job.id, lambda standing: states.moved(standing, State.STOPPING), words)

    def stopped(self, served: Serving) -> None:
        job = self._queue.get(_id(served))
        kept = "" if has_checkpoint(served.folder) else " without a checkpoint: it will begin anew"
        self._change(job.id, states.put_back, f"{job.reason}; stopped at {served.done:.0%}{kept}")

    def lost(self, served: Serving, failure: Failure) -> bool:
        id = _id(served)
        sample = served.starts[-1]
        trained = sample.curve[-1].epoch if sample.curve else self._trained.get(id, 0.0)
        ahead = trained > self._trained.get(id, 0.0)
        self._trained[id] = trained
        self._fruitless[id] = 0 if ahead else self._fruitless.get(id, 0) + 1
        job = self._queue.get(id)
        many = self._fruitless[id] > self._terms.restarts or job.standing.restarts >= self._terms.most_restarts
        if many or job.state is not State.RUNNING:
            return False
        if failure.room is not None:
            assert self.world is not None
            held = sum(other.active.held for other in self.world.jobs.values() if other is not served)
            self.slots = max(min(self.slots, held + failure.room), 1)
            self._log("smaller", slots=self.slots)
        self._change(id, states.lost, f"{failure}; it goes on from its checkpoint")
        return True

    def left(self, active: Active) -> None:
        """Write what became of a job that has left the world."""
        assert self.world is not None
        served, id = self.world.jobs[active.number], active.job.name
        belief = self._handed.pop(id)
        self.world.forget(active)
        job = self._queue.get(id)
        if job.is_final:
            return
        if active.declined and served.queued.promised:
            self._best_effort.add(id)
            self._again(id, "its deadline cannot be promised any more: it runs as there is room")
        elif active.declined:
            self._decline(job, served, belief)
        elif (served.withdrawn or job.standing.cancelling) and not served.finished:
            self._again(id, str(served.failure) if served.failure else job.reason)
        else:
            self._conclude(job, served, belief)

    def _again(self, id: str, words: str) -> None:
        job = self._change(id, states.put_back, words)
        if not job.is_final:
            self._open[id] = job

    def _conclude(self, job: QueuedJob, served: Serving, belief: Belief) -> None:
        seconds = self._queue.now() - job.submitted
        state, words = outcome_of(served, belief.cluster, seconds)
        result = result_document(served, belief.cluster, belief.forecast, seconds)
        self._change(job.id, lambda standing: states.moved(standing, state), words, result=result)
        for memory in (self._trained, self._fruitless, self._tries):
            memory.pop(job.id, None)

    def _decline(self, job: QueuedJob, served: Serving, belief: Belief) -> None:
        """Turn a job away that has never run, with the nearest that could be promised."""
        patient = replace(served.active.job, deadline=None)
        left = [*self._remaining(), Remaining(patient, 1.0, belief.spread)]
        (_, (_, _, high)) = self._spans(left).get(job.id, ((0.0,) * 3, (math.inf,) * 3))
        words = "declined: its deadline cannot be kept beside the others'"
        nearest = None
        if math.isfinite(high):
            whole = high + self._queue.now() - job.submitted
            nearest = {"deadline": whole, "unit": "s"}
            words += f"; nearest: a deadline of {duration(whole)}"
        move = lambda standing: states.moved(standing, State.DECLINED)  # noqa: E731
        self._change(job.id, move, words, result={"nearest": nearest})

    def _remaining(self) -> list[Remaining]:
        assert self.world is not None
        return [
            Remaining(served.active.job, 1.0 - served.done, served.queued.spread) for served in self.world.jobs.values()
        ]

    def _spans(self, jobs: Sequence[Remaining]) -> Mapping[str, Any]:
        assert self.world is not None
        if not jobs or len(jobs) > self._terms.most_forecast:
            return {}
        return spans(jobs, self._policy(), self.whole, self.world.now())

    def _tell_when(self) -> None:
        """Write when each job in the world will end."""
        now = self._queue.now()
        ends = self._spans(self._remaining())
        told = {
            id: {"eta": [now + at for at in end]}
            for id, (_, end) in ends.items()
            if all(math.isfinite(at) for at in end)
        }
        if told:
            self._queue.update(told, term=self._term)

    def _change(self, id: str, move: states.Move, words: str, **values: Any) -> QueuedJob:
        return self._queue.change(id, move, words, term=self._term, **values)


def earlier_starts(queue: Queue, job: Job, folder: Path) -> tuple[Sample, ...]:
    """Return the starts for good that a job has made in its folder, oldest first."""
    return tuple(sample for sample in queue.store.samples(job, "run") if sample.folder == str(folder))


def _id(served: Serving) -> str:
    return served.active.job.name
