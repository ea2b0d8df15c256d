"""Which job is measured next, and what becomes of one whose measuring ended without a word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cotune.cli.remedies import explained
from cotune.cluster.service import states
from cotune.cluster.service.preparers import Preparers, run_folder
from cotune.cluster.service.queue import JobInLine, QueuedJob
from cotune.cluster.service.states import IllegalMove, State
from cotune.cluster.service.term import TermQueue
from cotune.errors import CotuneError, Infeasible
from cotune.types import Cluster

TRIES = 5  # to measure a job whose measuring process was killed


class Preparing:
    """The jobs on their way to a plan, by priority and then first come."""

    def __init__(self, notes: TermQueue, preparers: Preparers) -> None:
        self._notes, self.preparers = notes, preparers
        self._tries: dict[str, int] = {}

    def go_on(self, queued: Iterable[JobInLine], cluster: Cluster, free: Mapping[str, int]) -> bool:
        """Reap those that have ended and begin with the next; say whether other units are set aside now."""
        before = self.preparers.reserved
        for job, code in self.preparers.ended():
            self._reap(job, code)
        waiting = [job for job in queued if not job.standing.held and job.id not in self.preparers.ids]
        while waiting and self.preparers.has_room:
            first = min(waiting, key=lambda job: job.turn)
            waiting.remove(first)
            self._begin(self._notes.queue.get(first.id), cluster, free)
        return self.preparers.reserved != before

    def forget(self, id: str) -> None:
        """Let go of a job that has ended."""
        self._tries.pop(id, None)

    def end(self) -> None:
        """Put back those whose measuring was cut short."""
        for job in self._notes.queue.jobs(states=[State.PROFILING]):
            self._notes.change(job.id, states.put_back, "its measuring was ended: the service went down")

    def _begin(self, job: QueuedJob, cluster: Cluster, free: Mapping[str, int]) -> None:
        try:
            folder = str(run_folder(job))
            self._notes.become(job.id, State.PROFILING, "read, to be measured and planned", folder=folder)
            self.preparers.begin(job, cluster, free)
        except IllegalMove:
            return
        except Infeasible as error:
            self._notes.become(job.id, State.DECLINED, explained(error), result={"nearest": [], **error.document([])})
        except (CotuneError, OSError) as error:
            words = explained(error) if isinstance(error, CotuneError) else f"cannot be prepared: {error}"
            self._notes.become(job.id, State.FAILED, words)

    def _reap(self, job: QueuedJob, code: int) -> None:
        """Take in that a preparation ended; one that wrote nothing is tried again a few times."""
        after = self._notes.queue.get(job.id)
        if after.state not in (State.PROFILING, State.STOPPING):
            return
        asked = after.state is State.STOPPING
        self._tries[job.id] = self._tries.get(job.id, 0) + (0 if asked else 1)
        if not asked and self._tries[job.id] >= TRIES:
            words = f"measuring it ended {self._tries[job.id]} times without a word (exit status {code})"
            self._notes.become(job.id, State.FAILED, words)
            return
        words = after.reason if asked else f"its measuring was ended (status {code})"
        self._notes.change(job.id, states.put_back, words)
