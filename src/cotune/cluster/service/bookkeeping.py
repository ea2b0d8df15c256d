"""Between the queue and the live world: who arrives, what is asked of those who are there, and what becomes of them.

    queue ─events▶ Bookkeeper ─arrivals▶ LiveWorld ─▶ drive ─left▶ Bookkeeper ─▶ queue

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

from cotune.cluster.live import LiveWorld
from cotune.cluster.live_job import Queued, Serving
from cotune.cluster.loop import Footing
from cotune.cluster.policy import Active
from cotune.cluster.service import states
from cotune.cluster.service.belief import Belief
from cotune.cluster.service.cluster_in_use import ClusterDocument, ClusterInUse
from cotune.cluster.service.device_types import less
from cotune.cluster.service.endings import conclude, decline
from cotune.cluster.service.forecasts import Interval, Remaining, spans
from cotune.cluster.service.handing_over import handed_over
from cotune.cluster.service.jobs_in_line import JobsInLine
from cotune.cluster.service.lost_units import LostUnits
from cotune.cluster.service.measuring_room import MeasuringRoom
from cotune.cluster.service.preparers import Preparers
from cotune.cluster.service.preparing import Preparing
from cotune.cluster.service.queue_journal import Log, QueueJournal
from cotune.cluster.service.queued import JobInLine, QueuedJob, QueueEvent
from cotune.cluster.service.recovery import completed
from cotune.cluster.service.routing import RoutedEngines
from cotune.cluster.service.states import STARTED, State
from cotune.cluster.service.term import TermQueue
from cotune.errors import CotuneError

# chosen by hand, none is measured
_LOOK_SECONDS = 0.3  # between two looks at the queue
_FORECAST_SECONDS = 3.0  # between two forecasts of when jobs end
_MOST_FORECAST = 300  # jobs that are forecast at a time
_MOST_AT_ONCE = 1000  # jobs that a policy decides about at a time


class Bookkeeper:
    """What the leader knows of the jobs, and writes of them."""

    def __init__(
        self, notes: TermQueue, preparers: Preparers, engines: RoutedEngines, *, cluster: ClusterInUse, log: Log
    ) -> None:
        self._queue, self._notes, self._log = notes.queue, notes, log
        self._preparing = Preparing(notes, preparers)
        self.cluster = cluster
        self.rules = self._queue.rules()
        self.policy = self.rules.decider(cluster.whole)
        self._world: LiveWorld  # from when it begins
        self._handed: dict[str, Belief] = {}  # jobs in the world
        self._lost_units = LostUnits(cluster, engines.room, self._held_elsewhere)
        self.journal = QueueJournal(notes, self._handed, cluster, self._lost_units, log)
        self._line = JobsInLine(self._queue)
        self._looked = self._forecast = -math.inf
        self._best_effort: set[str] = set()

    def begin(self, world: LiveWorld) -> None:
        """Take over: what ran under another leader is ended or put back, and goes on from its checkpoint."""
        self._world = world
        for job in self._queue.jobs(states=STARTED):
            found = completed(self._queue.store, job)
            if found is None:
                self._notes.change(job.id, states.put_back, "found again: the service before has ended")
            else:
                self._conclude(job, *found)

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
        return bool(self._handed or self._preparing.preparers.ids or self._line.is_moving)

    def arrivals(self) -> list[Queued]:
        """Look at the queue, now and then: follow what was asked, go on preparing, and return who arrives."""
        now = time.monotonic()
        if now < self._looked + _LOOK_SECONDS:
            return []
        self._looked = now
        self._look_at_rules()
        self._follow()
        self._prepare()
        arriving = self._arriving()
        if now >= self._forecast + _FORECAST_SECONDS:
            self._forecast = now
            self._tell_when()
        return arriving

    def _follow(self) -> None:
        """Take in what others have asked since."""
        events, jobs = self._line.follow()
        self._tell(events, {job.id: job.name for job in jobs})
        for job in jobs:
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
        for served in self._world.jobs.values():
            active = served.active
            if active.job.name != job.id or served.withdrawn:
                continue
            if job.standing.is_final or job.standing.held or job.standing.cancelling:
                self._world.withdraw(served, job.reason)
            elif active.job.priority != job.priority:
                active.job = replace(active.job, priority=job.priority)
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
        news = self._preparing.go_on(self._line.unplanned, self.cluster.present, room)
        if self._lost_units.came_back():
            news = True
            self._log("larger", units=self.cluster.units)
        if news:
            self._world.wake()

    def _next_ones(self) -> set[str]:
        return self._line.next_ones(_MOST_AT_ONCE - len(self._handed), self._handed)

    def _arriving(self) -> list[Queued]:
        found = []
        next_ones = self._next_ones()
        for job in self._queue.jobs(ids=next_ones) if next_ones else ():
            self._line.remove(job.id)
            try:
                found += self._queued(job)
            except (CotuneError, ValueError, KeyError, TypeError) as error:
                self._notes.become(job.id, State.FAILED, f"unreadable plan: {error}")
        return found

    def _queued(self, job: QueuedJob) -> list[Queued]:
        """Return a job as the world takes it, its deadline on the world's clock; nothing where it is planned again."""
        assert job.belief is not None
        belief = Belief.of(job.belief)
        if not belief.fits(self.cluster.present):
            words = f"planned again: {belief.wants} cannot be had from the {self.cluster.units} units there are"
            self._notes.become(job.id, State.QUEUED, words)
            return []
        submit = self._world.now() - (self._queue.now() - job.submitted)
        best_effort = job.id in self._best_effort
        whole, store = self.cluster.whole, self._queue.store
        queued = handed_over(job, belief, whole, store, submit=submit, best_effort=best_effort)
        self._handed[job.id] = belief  # only now: a plan that cannot be read fails its job, and is nobody's
        return [queued]

    def engine_of(self, folder: Path) -> tuple[str, Mapping[str, Any]]:
        """Return the engine of the job whose files are in a folder."""
        belief = self._handed[folder.name]
        return belief.engine, belief.engine_settings

    def _held_elsewhere(self, kind: str, engine: str) -> int:
        """Return the units of a type that jobs hold on other engines than one."""
        others = [active for active in self._actives() if self._handed[active.job.name].engine != engine]
        return sum(one.held for one in others if one.config is not None and one.config.device == kind)

    def _actives(self) -> list[Active]:
        return [served.active for served in self._world.jobs.values()]

    def left(self, active: Active) -> None:
        """Write what became of a job that has left the world."""
        served, id = self._world.jobs[active.number], active.job.name
        belief = self._handed.pop(id)
        self._world.forget(active)
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
        conclude(self._notes, job, served, belief)
        self._preparing.forget(job.id)
        self.journal.forget(job.id)

    def _decline(self, job: QueuedJob, served: Serving, belief: Belief) -> None:
        """Turn a job away that has never run, with the nearest that could be promised."""
        patient = replace(served.active.job, deadline=None)
        left = [*self._remaining(), Remaining(patient, 1.0, belief.spread, belief.start)]
        (_, (_, _, high)) = self._spans(left).get(job.id, ((0.0,) * 3, (math.inf,) * 3))
        decline(self._notes, job, high)

    def _remaining(self) -> list[Remaining]:
        return [Remaining.of(served) for served in self._world.jobs.values()]

    def _spans(self, jobs: Sequence[Remaining]) -> Mapping[str, tuple[Interval, Interval]]:
        if not jobs or len(jobs) > _MOST_FORECAST:
            return {}
        return spans(jobs, self.policy, self.cluster.present, self._world.now())

    def _tell_when(self) -> None:
        """Write when each job in the world will end."""
        now, ends = self._queue.now(), self._spans(self._remaining())
        told = {id: {"eta": [now + at for at in end]} for id, (_, end) in ends.items() if math.isfinite(sum(end))}
        if told:
            self._queue.update(told, term=self._notes.term)
