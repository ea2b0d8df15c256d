"""Between the queue and the live world: who arrives, what is noted of each job, and what becomes of it.

    queue ─events▶ Bookkeeper ─arrivals▶ LiveWorld ─▶ drive ─left▶ Bookkeeper ─▶ queue

Every note is a transaction in the leader's term. The queue is followed by its events, so that ten thousand jobs that
wait cost nothing while nothing happens to them.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from pathlib import Path
from typing import Any

from cotune.checkpoints import has_checkpoint
from cotune.cluster.journal import AfterLoss, Withdrawn
from cotune.cluster.live import LiveWorld
from cotune.cluster.live_job import Queued, Serving
from cotune.cluster.loop import Footing
from cotune.cluster.policy import Active
from cotune.cluster.service import states
from cotune.cluster.service.belief import Belief
from cotune.cluster.service.cluster_in_use import ClusterDocument, ClusterInUse
from cotune.cluster.service.device_types import is_alike, less
from cotune.cluster.service.forecasts import Interval, Remaining, spans
from cotune.cluster.service.losses import Losses
from cotune.cluster.service.lost_units import EngineDevice, LostUnits
from cotune.cluster.service.measuring_room import MeasuringRoom
from cotune.cluster.service.outcomes import outcome_of, result_document
from cotune.cluster.service.preparers import Preparers, run_folder
from cotune.cluster.service.preparing import Preparing
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import JobInLine, QueuedJob, QueueEvent
from cotune.cluster.service.recovery import completed
from cotune.cluster.service.routing import RoutedEngines
from cotune.cluster.service.states import STARTED, IllegalMove, State
from cotune.cluster.service.term import TermQueue
from cotune.errors import CotuneError
from cotune.run.lease import current
from cotune.types import Config, Failure, Job, Sample
from cotune.units import duration

Log = Callable[..., None]
_IN_LINE = (State.QUEUED, State.WAITING)  # nothing of them runs


@dataclass(frozen=True)
class ServiceTerms:
    """How the service goes about it; chosen by hand, none is measured."""

    look: float = 0.3  # seconds between two looks at the queue
    forecast: float = 3.0  # seconds between two forecasts of when jobs end
    most_forecast: int = 300  # jobs that are forecast at a time
    most_at_once: int = 1000  # jobs that a policy decides about at a time


TERMS = ServiceTerms()


class Bookkeeper:
    """What the leader knows of the jobs, and writes of them."""

    def __init__(
        self, notes: TermQueue, preparers: Preparers, *, cluster: ClusterInUse, log: Log, terms: ServiceTerms = TERMS
    ) -> None:
        self._queue, self._notes, self._log, self._terms = notes.queue, notes, log, terms
        self._preparing = Preparing(notes, preparers)
        self.cluster = cluster
        self.rules = self._queue.rules()
        self.policy = self.rules.decider(cluster.whole)
        self.world: LiveWorld | None = None
        self.engines: RoutedEngines | None = None
        self._lost_units = LostUnits(cluster, self._room, self._held_elsewhere)
        self._seen = 0  # events
        self._looked = self._forecast = -math.inf
        self._handed: dict[str, Belief] = {}  # jobs in the world
        self._open: dict[str, JobInLine] = {}  # those that wait to be prepared or handed over, as last read
        self._best_effort: set[str] = set()
        self._losses = Losses()

    def begin(self) -> None:
        """Take over: what ran under another leader is ended or put back, and goes on from its checkpoint."""
        self._seen = self._queue.last_event()
        for job in self._queue.jobs(states=STARTED):
            found = completed(self._queue.store, job)
            if found is None:
                self._notes.change(job.id, states.put_back, "found again: the service before has ended")
            else:
                self._conclude(job, *found)
        self._open = {job.id: job for job in self._queue.line(states=_IN_LINE)}

    def end(self) -> None:
        """Put back those whose measuring was cut short."""
        self._preparing.end()
        self._follow()

    @property
    def footing(self) -> Footing:
        """Return who decides now, over the units that are not set aside for measuring."""
        present, aside = self.cluster.present, self._preparing.preparers.reserved + self._claimed()
        return Footing(self.policy, less(present, aside), present)

    def _claimed(self) -> Counter[str]:
        """Return what has come free for a job that waits to be measured; higher priorities have it first."""
        claim = self._preparing.claim
        if claim is None or any(one.config is None and one.job.priority > claim.priority for one in self._actives()):
            return Counter()
        free = self._measuring_room().free
        return Counter({kind: min(units, free[kind]) for kind, units in claim.units.items()})

    def _measuring_room(self, *, crowded: bool = False) -> MeasuringRoom:
        jobs = self.world.jobs.values() if self.world else ()
        return MeasuringRoom.of(self.cluster.present, self._preparing.preparers.reserved, jobs, crowded=crowded)

    @property
    def occupancy(self) -> ClusterDocument:
        """Return who holds what of the cluster, by type and node."""
        return self.cluster.document(self._actives(), self._preparing.preparers.measuring)

    @property
    def is_idle(self) -> bool:
        """Say whether no job is left that could still go on; who is held does not count."""
        if not self._is_busy:
            self._follow()  # one that was just measured or stopped is told of by its event
        return not self._is_busy

    @property
    def _is_busy(self) -> bool:
        waiting = any(not job.standing.held for job in self._open.values())
        return bool(self._handed or self._preparing.preparers.ids or waiting)

    def arrivals(self) -> list[Queued]:
        """Look at the queue, now and then: follow what was asked, go on preparing, and return who arrives."""
        now = time.monotonic()
        if now < self._looked + self._terms.look:
            return []
        self._looked = now
        self._look_at_rules()
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
        jobs = self._queue.line(ids={event.job for event in events})
        self._tell(events, {job.id: job.name for job in jobs})
        for job in jobs:
            self._open.pop(job.id, None)
            if job.state in _IN_LINE:
                self._open[job.id] = job
            if job.id in self._handed:
                self._heed(job)
            if job.state is State.STOPPING or job.standing.is_final:
                self._preparing.preparers.stop(job.id)

    def _tell(self, events: Sequence[QueueEvent], names: Mapping[str, str]) -> None:
        """Log what happened to jobs, whoever did it."""
        for event in events:
            facts = {"state": event.state.value, "fence": event.fence, "words": event.words}
            self._log("job", job=event.job, name=names[event.job], number=event.number, **facts)

    def _heed(self, job: JobInLine) -> None:
        """Do what was asked of a job in the world: have it leave, or stand elsewhere in the line."""
        assert self.world is not None
        for served in self.world.jobs.values():
            active = served.active
            if active.job.name != job.id or served.withdrawn:
                continue
            if job.standing.is_final or job.standing.held or job.standing.cancelling:
                self.world.withdraw(served, job.reason)
            elif active.job.priority != job.priority:
                active.job = replace(active.job, priority=job.priority)
                self.world.wake()

    def _look_at_rules(self) -> None:
        """Go by other rules from now on, if somebody has changed them."""
        rules = self._queue.rules()
        if rules != self.rules:
            self.rules, self.policy = rules, rules.decider(self.cluster.whole)
            self._log("rules", **rules.document())
            if self.world is not None:
                self.world.wake()

    def _prepare(self) -> None:
        """Go on measuring and planning: beside those who wait for workers, on no more than it has to have.

        Those who arrive are decided about first: else they might be stopped as they start.
        """
        waiting = any(active.config is None for active in self._actives())
        queued = [job for job in self._open.values() if job.state is State.QUEUED]
        room = None if self._next_ones() else self._measuring_room(crowded=waiting)
        news = self._preparing.go_on(queued, self.cluster.present, room)
        if self._lost_units.came_back():
            news = True
            self._log("larger", units=self.cluster.units)
        if news and self.world is not None:
            self.world.wake()

    def _next_ones(self) -> set[str]:
        """Return the jobs that arrive next."""
        room = self._terms.most_at_once - len(self._handed)
        waiting = [
            job
            for job in self._open.values()
            if job.state is State.WAITING and not job.standing.held and job.id not in self._handed
        ]
        return {job.id for job in nsmallest(max(room, 0), waiting, key=lambda job: job.turn)}

    def _arriving(self) -> list[Queued]:
        found = []
        next_ones = self._next_ones()
        for job in self._queue.jobs(ids=next_ones) if next_ones else ():
            del self._open[job.id]
            try:
                found += self._queued(job)
            except (CotuneError, ValueError, KeyError, TypeError) as error:
                self._notes.become(job.id, State.FAILED, f"unreadable plan: {error}")
        return found

    def _queued(self, job: QueuedJob) -> list[Queued]:
        """Return a job as the world takes it, its deadline on the world's clock; nothing where it is planned again."""
        assert self.world is not None
        assert job.belief is not None
        belief = Belief.of(job.belief)
        if not belief.fits(self.cluster.present):
            words = f"planned again: {belief.wants} cannot be had from the {self.cluster.units} units there are"
            self._notes.become(job.id, State.QUEUED, words)
            return []
        self._handed[job.id] = belief
        since = self._queue.now() - job.submitted
        submit = self.world.now() - since
        best_effort = job.deadline is None or job.id in self._best_effort
        submission = belief.submission(
            job.id,
            submit=submit,
            deadline=None if best_effort or job.deadline is None else submit + job.deadline,
            cluster=self.cluster.whole,
            team=job.team,
            priority=job.priority,
        )
        folder = run_folder(job)
        earlier = earlier_starts(self._queue, belief.job, folder)
        queued = Queued(
            belief.job,
            replace(belief.goal, deadline=job.deadline),
            submission,
            belief.needed,
            belief.spread,
            earlier=earlier,
            silence=belief.silence,
            stop_grace=belief.stop_grace,
            device=belief.wants.device if is_alike(self.cluster.whole) else None,
            engine=belief.engine,
            folder=folder,
            promised=bool(earlier),
        )
        return [queued]

    def engine_of(self, folder: Path) -> tuple[str, Mapping[str, Any]]:
        """Return the engine of the job whose files are in a folder."""
        belief = self._handed[folder.name]
        return belief.engine, belief.engine_settings

    def starting(self, served: Serving, config: Config) -> int | None:
        words = f"{config}" + (f", going on from {served.done:.0%}" if served.done > 0 else "")
        above = current(served.folder)
        try:
            job = self._notes.change(
                _id(served), lambda standing: states.begun(standing, State.RUNNING, above), words, workers=config.units
            )
        except IllegalMove as error:
            raise Withdrawn(str(error)) from None
        return job.standing.fence

    def stopping(self, served: Serving, words: str) -> None:
        job = self._queue.get(_id(served))
        if job.state is State.RUNNING:
            self._notes.become(job.id, State.STOPPING, words)

    def stopped(self, served: Serving) -> None:
        job = self._queue.get(_id(served))
        anew = "" if job.standing.cancelling else ": it will begin anew"
        kept = "" if has_checkpoint(served.folder) else f" without a checkpoint{anew}"
        self._notes.change(job.id, states.put_back, f"{job.reason}; stopped at {served.done:.0%}{kept}")

    def lost(self, served: Serving, failure: Failure) -> AfterLoss:
        id = _id(served)
        job, belief = self._queue.get(id), self._handed[id]
        if self._losses.too_many(job, served.starts[-1]) or job.state is not State.RUNNING:
            return AfterLoss.FAILS
        device = served.starts[-1].config.device
        smaller = self._lost_units.noticed_by(
            served.active, EngineDevice(belief.engine, belief.engine_settings, device)
        )
        if smaller:
            self._log("smaller", units=self.cluster.units)
        kept = has_checkpoint(served.folder)
        after = "it goes on from its checkpoint" if kept else "it begins anew, without a checkpoint"
        self._notes.change(id, states.lost, f"{failure}; {after}")
        return AfterLoss.WAITS if smaller or failure.room is not None else AfterLoss.STARTS

    def _room(self, where: EngineDevice) -> int | None:
        return None if self.engines is None else self.engines.room(where.engine, where.settings, where.device)

    def _held_elsewhere(self, kind: str, engine: str) -> int:
        """Return the units of a type that jobs hold on other engines than one."""
        others = [active for active in self._actives() if self._handed[active.job.name].engine != engine]
        return sum(one.held for one in others if one.config is not None and one.config.device == kind)

    def _actives(self) -> list[Active]:
        return [served.active for served in self.world.jobs.values()] if self.world else []

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
        self._notes.change(id, states.put_back, words)  # its event brings it back into the line

    def _conclude(self, job: QueuedJob, served: Serving, belief: Belief) -> None:
        seconds = self._queue.now() - job.submitted
        state, words = outcome_of(served, belief.cluster, seconds)
        result = result_document(served, belief.cluster, belief.forecast, seconds)
        self._notes.become(job.id, state, words, result=result)
        self._preparing.forget(job.id)
        self._losses.forget(job.id)

    def _decline(self, job: QueuedJob, served: Serving, belief: Belief) -> None:
        """Turn a job away that has never run, with the nearest that could be promised."""
        patient = replace(served.active.job, deadline=None)
        left = [*self._remaining(), Remaining(patient, 1.0, belief.spread, belief.start)]
        (_, (_, _, high)) = self._spans(left).get(job.id, ((0.0,) * 3, (math.inf,) * 3))
        words = "its deadline cannot be kept beside the others'"
        nearest = None
        if math.isfinite(high):
            whole = high + self._queue.now() - job.submitted
            nearest = {"deadline": whole, "unit": "s"}
            words += f"; nearest: a deadline of {duration(whole)}"
        self._notes.become(job.id, State.DECLINED, words, result={"nearest": nearest})

    def _remaining(self) -> list[Remaining]:
        assert self.world is not None
        return [_rest(served) for served in self.world.jobs.values()]

    def _spans(self, jobs: Sequence[Remaining]) -> Mapping[str, tuple[Interval, Interval]]:
        assert self.world is not None
        if not jobs or len(jobs) > self._terms.most_forecast:
            return {}
        return spans(jobs, self.policy, self.cluster.present, self.world.now())

    def _tell_when(self) -> None:
        """Write when each job in the world will end."""
        now, ends = self._queue.now(), self._spans(self._remaining())
        told = {id: {"eta": [now + at for at in end]} for id, (_, end) in ends.items() if math.isfinite(sum(end))}
        if told:
            self._queue.update(told, term=self._notes.term)


def earlier_starts(queue: Queue, job: Job, folder: Path) -> tuple[Sample, ...]:
    """Return the starts for good that a job has made in its folder, oldest first."""
    return tuple(sample for sample in queue.store.samples(job, "run") if sample.folder == str(folder))


def _rest(served: Serving) -> Remaining:
    """Return what is left of a job: the rest of its start too, where it is starting."""
    active = served.active
    start = max(active.ready - active.synced, 0.0) if active.running else active.restart
    return Remaining(active.job, 1.0 - served.done, served.queued.spread, start)


def _id(served: Serving) -> str:
    return served.active.job.name
