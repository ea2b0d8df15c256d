"""Which job is measured next, and what becomes of one whose measuring ended without a word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from cotune.cli.remedies import explained
from cotune.cluster.service import states
from cotune.cluster.service.preparers import PreparationEnd, Preparers, run_folder
from cotune.cluster.service.queued import JobInLine, QueuedJob
from cotune.cluster.service.states import IllegalMove, State
from cotune.cluster.service.term import TermQueue
from cotune.errors import CotuneError, Infeasible
from cotune.types import Cluster

TRIES = 5  # to measure a job whose measuring process was killed
UNMEASURED = 75  # exit status of a process that was to plan a job which has to be measured first
_AHEAD = 8  # jobs known to be unmeasured, beyond which no more are looked at


class Preparing:
    """The jobs on their way to a plan, by priority and then first come.

    Each is planned by the samples there are. One that has none waits for its turn to be measured, and who needs no
    measuring does not wait for it.
    """

    def __init__(self, notes: TermQueue, preparers: Preparers) -> None:
        self._notes, self.preparers = notes, preparers
        self._tries: dict[str, int] = {}
        self._unmeasured: dict[str, str] = {}  # jobs, and the folders of their projects

    def go_on(self, queued: Iterable[JobInLine], cluster: Cluster, free: Mapping[str, int]) -> bool:
        """Reap those that have ended, or begin with the next; say whether other units are set aside now.

        Who was planned just now is given workers first: what its preparation wrote is read before the next begins.
        """
        before, over = self.preparers.reserved, self.preparers.ended()
        for end in over:
            self._reap(end)
        if not over:
            waiting = [job for job in queued if not job.standing.held and job.id not in self.preparers.ids]
            self._begin_next(waiting, cluster, free)
        return self.preparers.reserved != before

    def _begin_next(self, waiting: Sequence[JobInLine], cluster: Cluster, free: Mapping[str, int]) -> None:
        known = {job.id for job in waiting if job.id in self._unmeasured}
        while known and self.preparers.can_measure:
            first = min((job for job in waiting if job.id in known), key=lambda job: job.turn)
            known.remove(first.id)
            self._begin(first.id, "to be measured", lambda job: self.preparers.measure(job, cluster, free))
        unread = [job for job in waiting if job.id not in self._unmeasured] if len(known) < _AHEAD else []
        if unread and self.preparers.can_plan:
            first = min(unread, key=lambda job: job.turn)
            self._begin(first.id, "read, to be planned", lambda job: self.preparers.plan(job, cluster))

    def forget(self, id: str) -> None:
        """Let go of a job that has ended."""
        self._tries.pop(id, None)
        self._unmeasured.pop(id, None)

    def end(self) -> None:
        """Put back those whose measuring was cut short."""
        for job in self._notes.queue.jobs(states=[State.PROFILING]):
            self._notes.change(job.id, states.put_back, "its measuring was ended: the service went down")

    def _begin(self, id: str, words: str, begin: Callable[[QueuedJob], None]) -> None:
        job = self._notes.queue.get(id)
        try:
            self._notes.become(job.id, State.PROFILING, words, folder=str(run_folder(job)))
            begin(job)
        except IllegalMove:
            return
        except Infeasible as error:
            self._notes.become(job.id, State.DECLINED, explained(error), result={"nearest": [], **error.document([])})
        except (CotuneError, OSError) as error:
            words = explained(error) if isinstance(error, CotuneError) else f"cannot be prepared: {error}"
            self._notes.become(job.id, State.FAILED, words)

    def _reap(self, end: PreparationEnd) -> None:
        """Take in that a preparation ended; one that came to nothing is tried again a few times."""
        job = end.job
        if self._unmeasured.pop(job.id, None) is not None:  # it was measured: others of its project may need no more
            self._unmeasured = {id: folder for id, folder in self._unmeasured.items() if folder != job.file.folder}
        after = self._notes.queue.get(job.id)
        if after.state not in (State.PROFILING, State.STOPPING):
            return
        asked = after.state is State.STOPPING
        if end.code == UNMEASURED and not asked:
            self._unmeasured[job.id] = job.file.folder
            self._notes.change(job.id, states.put_back, "waits to be measured")
            return
        self._tries[job.id] = self._tries.get(job.id, 0) + (0 if asked else 1)
        if not asked and self._tries[job.id] >= TRIES:
            words = f"measuring it ended {self._tries[job.id]} times {_last_words(end)}"
            self._notes.become(job.id, State.FAILED, words)
            return
        words = after.reason if asked else f"its measuring was ended {_last_words(end)}"
        self._notes.change(job.id, states.put_back, words)


def _last_words(end: PreparationEnd) -> str:
    return f"(status {end.code}): {end.last_line}" if end.last_line else f"without a word (status {end.code})"
