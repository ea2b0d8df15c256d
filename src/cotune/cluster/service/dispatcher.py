"""Between the queue and the live world: who arrives, what is asked of those who are there, and what becomes of them.

    queue ─events▶ Dispatcher ─arrivals▶ LiveWorld ─▶ drive ─left▶ Dispatcher ─▶ queue

What the world does with a job meanwhile is noted by its journal (`queue_journal`).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cotune.cluster.loop import InForce
from cotune.cluster.policy import Active, less
from cotune.cluster.service import states
from cotune.cluster.service.backlog import Backlog
from cotune.cluster.service.cluster_in_use import ClusterDocument, ClusterInUse, LostUnits
from cotune.cluster.service.forecasts import Interval, Remaining, spans
from cotune.cluster.service.handover import arriving, completed, conclude, decline
from cotune.cluster.service.live import LiveWorld
from cotune.cluster.service.live_job import LiveJob
from cotune.cluster.service.measuring_room import MeasuringRoom
from cotune.cluster.service.planned_job import PlannedJob
from cotune.cluster.service.preparation import Preparers, Preparing
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queue_journal import Log, QueueJournal
from cotune.cluster.service.queued import ListedJob, QueuedJob
from cotune.cluster.service.routing import RoutedEngines
from cotune.cluster.service.states import STARTED, State
from cotune.errors import CotuneError

# chosen by hand, none is measured
_LOOK_SECONDS = 0.3  # between two looks at the queue
_FORECAST_SECONDS = 3.0  # between two forecasts of when jobs end
_MOST_FORECAST = 300  # jobs that are forecast at a time
_MOST_AT_ONCE = 1000  # jobs that a policy decides about at a time


class Dispatcher:
    """What the leader knows of the jobs, and writes of them; the queue is written in its term."""

    def __init__(
        self, queue: Queue, preparers: Preparers, engines: RoutedEngines, *, cluster: ClusterInUse, log: Log
    ) -> None:
        self._queue, self._log = queue, log
        self._preparing = Preparing(queue, preparers)
        self.cluster = cluster
        self.rules = queue.rules()
        self.policy = self.rules.decider(cluster.whole)
        self._world: LiveWorld  # from when it begins
        self._lost_units = LostUnits(cluster, engines.room, self._held_elsewhere)
        self.journal = QueueJournal(queue, cluster, self._lost_units, log)
        self._backlog = Backlog(queue)
        self._looked = self._forecast = -math.inf
        self._best_effort: set[str] = set()

    def begin(self, world: LiveWorld) -> None:
        """Take over: what ran under another leader is ended or put back, and resumes from its checkpoint."""
        self._world = world
        for queued in self._queue.jobs(states=STARTED):
            ended = completed(self._queue.store, queued)
            if ended is None:
                self._queue.change(queued.id, states.put_back, "found again: the service before has ended")
            else:
                self._conclude(queued, ended)

    def end(self) -> None:
        """Put back those whose measuring was cut short."""
        self._preparing.end()
        self._follow()

    @property
    def in_force(self) -> InForce:
        """Return who decides now, over the units that are not set aside for measuring."""
        present, aside = self.cluster.present, self._preparing.preparers.reserved + self._claimed()
        return InForce(self.policy, less(present, aside), present)

    def _claimed(self) -> Counter[str]:
        """Return what has come free for a job that waits to be measured; higher priorities have it first."""
        claim = self._preparing.claim
        if claim is None or any(one.config is None and one.job.priority > claim.priority for one in self._actives()):
            return Counter()
        free = self._measuring_room().free
        return Counter({kind: min(units, free[kind]) for kind, units in claim.units.items()})

    def _measuring_room(self, *, crowded: bool = False) -> MeasuringRoom:
        reserved = self._preparing.preparers.reserved
        return MeasuringRoom.of(self.cluster.present, reserved, self._world.jobs.values(), crowded=crowded)

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
        return bool(self._world.jobs or self._preparing.preparers.ids or self._backlog.is_moving)

    def arrivals(self) -> list[LiveJob]:
        """Look at the queue, now and then: follow what was asked, go on preparing, and return who arrives."""
        now = time.monotonic()
        if now < self._looked + _LOOK_SECONDS:
            return []
        self._looked = now
        self._look_at_rules()
        self._follow()
        self._prepare()
        arrived = self._arrived()
        if now >= self._forecast + _FORECAST_SECONDS:
            self._forecast = now
            self._forecast_ends()
        return arrived

    def _follow(self) -> None:
        """Take in what others have asked since, and log what happened to jobs, whoever did it."""
        events, jobs = self._backlog.follow()
        names, present = {job.id: job.name for job in jobs}, self._present()
        for event in events:
            facts = {"state": event.state.value, "fence": event.fence, "words": event.words}
            self._log("job", job=event.job, name=names[event.job], number=event.number, **facts)
        for job in jobs:
            if job.id in present:
                self._obey(job, present[job.id])
            if job.state is State.STOPPING or job.is_final:
                self._preparing.preparers.stop(job.id)

    def _obey(self, asked: ListedJob, job: LiveJob) -> None:
        """Do what was asked of a job in the world: have it leave, or go before others or after them."""
        if job.withdrawn:
            return
        if asked.is_final or asked.status.held or asked.status.cancelling:
            self._world.withdraw(job, asked.reason)
        elif job.active.job.priority != asked.priority:
            job.active.job = replace(job.active.job, priority=asked.priority)
            self._world.wake()

    def _look_at_rules(self) -> None:
        """Go by other rules from now on, if somebody has changed them."""
        rules = self._queue.rules()
        if rules != self.rules:
            self.rules, self.policy = rules, rules.decider(self.cluster.whole)
            self._log("rules", **rules.document())
            self._world.wake()

    def _prepare(self) -> None:
        """Go on measuring and planning: beside those who wait for workers, on no more than it has to have.

        Those who arrive are decided about first: else they might be stopped as they start.
        """
        waiting = any(active.config is None for active in self._actives())
        room = None if self._next_ones() else self._measuring_room(crowded=waiting)
        news = self._preparing.go_on(self._backlog.unplanned, self.cluster.present, room)
        if self._lost_units.came_back():
            news = True
            self._log("larger", units=self.cluster.units)
        if news:
            self._world.wake()

    def _next_ones(self) -> set[str]:
        present = self._present()
        return self._backlog.next_ones(_MOST_AT_ONCE - len(present), present)

    def _arrived(self) -> list[LiveJob]:
        found = []
        next_ones = self._next_ones()
        for queued in self._queue.jobs(ids=next_ones) if next_ones else ():
            self._backlog.remove(queued.id)
            try:
                found += self._arriving(queued)
            except (CotuneError, ValueError, KeyError, TypeError) as error:
                self._queue.become(queued.id, State.FAILED, f"unreadable plan: {error}")
        return found

    def _arriving(self, queued: QueuedJob) -> list[LiveJob]:
        """Return a job as the world takes it, its deadline on the world's clock; nothing where it is planned again."""
        assert queued.belief is not None
        planned = PlannedJob.of(queued.belief)
        if not planned.fits(self.cluster.present):
            words = f"planned again: {planned.wants} cannot be had from the {self.cluster.units} units there are"
            self._queue.become(queued.id, State.QUEUED, words)
            return []
        submit = self._world.now() - (self._queue.now() - queued.submitted)
        best_effort = queued.id in self._best_effort
        whole, store = self.cluster.whole, self._queue.store
        return [arriving(queued, planned, whole, store, submit=submit, best_effort=best_effort)]

    def engine_of(self, folder: Path) -> tuple[str, Mapping[str, Any]]:
        """Return the engine of the job whose files are in a folder."""
        planned = self._present()[folder.name].planned
        return planned.engine, planned.engine_settings

    def _held_elsewhere(self, kind: str, engine: str) -> int:
        """Return the units of a type that jobs hold on other engines than one."""
        others = [job.active for job in self._world.jobs.values() if job.planned.engine != engine]
        return sum(one.held for one in others if one.config is not None and one.config.device == kind)

    def _present(self) -> dict[str, LiveJob]:
        return {job.id: job for job in self._world.jobs.values()}

    def _actives(self) -> list[Active]:
        return [job.active for job in self._world.jobs.values()]

    def left(self, active: Active) -> None:
        """Write what became of a job that has left the world."""
        job = self._world.jobs[active.number]
        self._world.forget(active)
        queued = self._queue.get(job.id)
        if queued.is_final:
            return
        if active.declined and job.earlier:  # it was admitted before, and is not sent away any more
            self._best_effort.add(job.id)
            self._again(job.id, "its deadline cannot be promised any more: it runs as there is room")
        elif active.declined:
            self._decline(queued, job)
        elif (job.withdrawn or queued.status.cancelling) and not job.finished:
            self._again(job.id, str(job.failure) if job.failure else queued.reason)
        else:
            self._conclude(queued, job)

    def _again(self, id: str, words: str) -> None:
        self._queue.change(id, states.put_back, words)  # its event brings it back into the backlog

    def _conclude(self, queued: QueuedJob, job: LiveJob) -> None:
        conclude(self._queue, queued, job)
        self._preparing.forget(job.id)
        self.journal.forget(job.id)

    def _decline(self, queued: QueuedJob, job: LiveJob) -> None:
        """Turn a job away that has never run, with the nearest that could be promised."""
        patient = replace(job.active.job, deadline=None)
        left = [*self._remaining(), Remaining(patient, 1.0, job.planned.spread, job.planned.start)]
        (_, (_, _, high)) = self._spans(left).get(job.id, ((0.0,) * 3, (math.inf,) * 3))
        decline(self._queue, queued, high)

    def _remaining(self) -> list[Remaining]:
        return [Remaining.of(job) for job in self._world.jobs.values()]

    def _spans(self, jobs: Sequence[Remaining]) -> Mapping[str, tuple[Interval, Interval]]:
        if not jobs or len(jobs) > _MOST_FORECAST:
            return {}
        return spans(jobs, self.policy, self.cluster.present, self._world.now())

    def _forecast_ends(self) -> None:
        """Write when each job in the world will end."""
        now, ends = self._queue.now(), self._spans(self._remaining())
        forecasts = {id: {"eta": [now + at for at in end]} for id, (_, end) in ends.items() if math.isfinite(sum(end))}
        if forecasts:
            self._queue.update(forecasts)
