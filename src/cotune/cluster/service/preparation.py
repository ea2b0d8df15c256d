"""Which job is planned or measured next, in which process, and what becomes of one whose process ended without a word.

One process plans by the samples that there are, and one or a few measure. While a job is measured the policy has fewer
units of each type that the job may have, so that its probes are not slowed by the others' work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cotune.cluster.service import states
from cotune.cluster.service.device_types import types_of
from cotune.cluster.service.job_files import LOG, run_folder
from cotune.cluster.service.measuring_room import MeasuringClaim, MeasuringNeed, MeasuringRoom
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import ListedJob, QueuedJob
from cotune.cluster.service.states import IllegalMove, State
from cotune.errors import CotuneError, Infeasible
from cotune.jobfile.settings import Settings
from cotune.remedies import explained
from cotune.run.tail import Tail
from cotune.safety import private
from cotune.store import rows
from cotune.types import Cluster
from cotune.units import counted

TRIES = 5  # to measure a job whose measuring process was killed
UNMEASURED = 75  # exit status of a process that was to plan a job which has to be measured first
_AHEAD = 8  # jobs known to be unmeasured, beyond which no more are looked at
_END_SECONDS = 5.0  # for a process to end when it is asked to


@dataclass(frozen=True, slots=True)
class Preparer:
    """A process that prepares a job, and the units of each type that it may measure on; none where it only plans."""

    job: QueuedJob
    process: subprocess.Popen[bytes]
    units: Mapping[str, int]
    log: Tail  # of what it writes

    def last_words(self) -> str:
        """Return how it ended: its exit status, and the last line that it wrote, if any."""
        written = [line.strip() for line in self.log.lines(last=True)]
        last = next((line for line in reversed(written) if line), "")
        status = f"(status {self.process.returncode})"
        return f"{status}: {last}" if last else f"without a word {status}"


class Preparers:
    """Who is being prepared."""

    def __init__(self, url: str, term: int, at_once: int = 1) -> None:
        self._url, self._term, self._at_once = url, term, at_once
        self._running: dict[str, Preparer] = {}

    @property
    def reserved(self) -> Counter[str]:
        """Return the units of each type that measuring holds."""
        held: Counter[str] = Counter()
        for one in self._running.values():
            held.update(one.units)
        return held

    @property
    def measuring(self) -> list[tuple[str, str, int]]:
        """Return the jobs that are measured, with the types and units that are set aside for each."""
        return [(id, kind, units) for id, one in self._running.items() for kind, units in one.units.items()]

    @property
    def ids(self) -> set[str]:
        return set(self._running)

    @property
    def can_plan(self) -> bool:
        return all(one.units for one in self._running.values())

    @property
    def can_measure(self) -> bool:
        return sum(bool(one.units) for one in self._running.values()) < self._at_once

    def begin(self, job: QueuedJob, settings: Settings, cluster: Cluster, units: Mapping[str, int]) -> None:
        """Begin to measure a job on some units of each type; with none, to plan it by the samples there are."""
        types_of(settings, cluster)  # or say why it cannot be served at all
        folder = run_folder(job)
        private.make_folder(folder)
        command = [
            sys.executable,
            "-m",
            __package__ + ".preparation_process",
            job.id,
            str(self._term),
            str(min(units.values(), default=0)),
        ]
        tail = Tail(folder / LOG)
        with (folder / LOG).open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "COTUNE_STORE": self._url},
                cwd=job.file.folder if Path(job.file.folder).is_dir() else None,
                start_new_session=True,
            )
        given = {"settings": rows.of_record(settings), "cluster": rows.of_record(cluster)}
        if process.stdin is not None:
            process.stdin.write(json.dumps(given).encode() + b"\n")
            process.stdin.flush()
        self._running[job.id] = Preparer(job, process, units, tail)

    def ended(self) -> list[Preparer]:
        """Return the processes that have ended since."""
        over = [one for one in self._running.values() if one.process.poll() is not None]
        for one in over:
            del self._running[one.job.id]
            _close(one)
        return over

    def stop(self, id: str) -> None:
        """End a preparation; its workers end with it."""
        one = self._running.get(id)
        if one is not None:
            one.process.terminate()

    def close(self) -> None:
        """End all of them."""
        for one in self._running.values():
            one.process.terminate()
        for one in self._running.values():
            try:
                one.process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
            _close(one)
        self._running.clear()


class Preparing:
    """The jobs on their way to a plan, by priority and then first come.

    Each is planned by the samples there are. One that has none waits for its turn to be measured, and who needs no
    measuring does not wait for it.
    """

    def __init__(self, queue: Queue, preparers: Preparers) -> None:
        self.queue, self.preparers = queue, preparers
        self._tries: dict[str, int] = {}
        self._unmeasured: dict[str, str] = {}  # jobs, and the folders of their projects
        self._needs: dict[str, tuple[Cluster, MeasuringNeed, QueuedJob]] = {}
        self._settings: dict[str, Settings] = {}
        self.claim: MeasuringClaim | None = None

    def go_on(self, queued: Iterable[ListedJob], cluster: Cluster, room: MeasuringRoom | None) -> bool:
        """Reap those that have ended, or begin with the next; say whether other units are set aside now.

        Who was planned just now is given workers first: what its preparation wrote is read before the next begins,
        and without room none is measured in this pass.
        """
        before, over = (self.preparers.reserved, self.claim), self.preparers.ended()
        for end in over:
            self._reap(end)
        if not over:
            waiting = [job for job in queued if not job.status.held and job.id not in self.preparers.ids]
            self._begin_next(sorted(waiting, key=lambda job: job.turn), cluster, room)
        return (self.preparers.reserved, self.claim) != before

    def _begin_next(self, waiting: Sequence[ListedJob], cluster: Cluster, room: MeasuringRoom | None) -> None:
        known = [job for job in waiting if job.id in self._unmeasured]
        if room is not None:
            self._measure_next(known, cluster, room)
        elif self.claim is not None and self.claim.job not in [job.id for job in known]:
            self.claim = None
        unread = [job for job in waiting if job.id not in self._unmeasured] if len(known) < _AHEAD else []
        if unread and self.preparers.can_plan:
            with self._own_fault(unread[0].id):
                self._begin(unread[0].id, "read, to be planned", cluster, {})

    def _measure_next(self, known: Sequence[ListedJob], cluster: Cluster, room: MeasuringRoom) -> None:
        self.claim = None
        for job in known:
            if not self.preparers.can_measure:
                return
            with self._own_fault(job.id):
                room = self._measure(job, cluster, room)

    def _measure(self, job: ListedJob, cluster: Cluster, room: MeasuringRoom) -> MeasuringRoom:
        """Begin to measure a job, or have it wait for its turn; return the room that is left for the next."""
        need = self._need(job.id, cluster)
        units = room.units(need, job.priority)
        if units is not None:
            self._begin(job.id, "to be measured", cluster, units)
            return room.without(units)
        words = (
            f"waits to be measured: {counted(need.least, 'worker')} must come free, "
            "or a job of no higher priority to a checkpoint"
        )
        if job.reason != words:
            self.queue.change(job.id, lambda status: status, words, reason=words)
        claimed = dict.fromkeys(need.kinds, need.least)
        self.claim = self.claim or MeasuringClaim(job.id, job.priority, claimed)
        return room.without(claimed)

    def _need(self, id: str, cluster: Cluster) -> MeasuringNeed:
        """Return what measuring a job takes, or raise that its deadline has passed."""
        known = self._needs.get(id)
        if known is None or known[0] != cluster:
            job = self.queue.get(id)
            known = self._needs[id] = (cluster, MeasuringNeed.of(self._said(job), cluster), job)
        _, need, job = known
        if job.deadline is not None:
            time_left(job, job.deadline, self.queue.now())
        return need

    def forget(self, id: str) -> None:
        """Let go of a job that has ended."""
        self._tries.pop(id, None)
        self._unmeasured.pop(id, None)
        self._needs.pop(id, None)
        self._settings.pop(id, None)

    def end(self) -> None:
        """Put back those whose measuring was cut short."""
        for job in self.queue.jobs(states=[State.PROFILING]):
            self.queue.change(job.id, states.put_back, "its measuring was ended: the service went down")

    def _begin(self, id: str, words: str, cluster: Cluster, units: Mapping[str, int]) -> None:
        job = self.queue.get(id)
        self.queue.become(job.id, State.PROFILING, words, folder=str(run_folder(job)))
        self.preparers.begin(job, self._said(job), cluster, units)

    def _said(self, job: QueuedJob) -> Settings:
        """Return what a job's file says, which is parsed once in a service."""
        if job.id not in self._settings:
            self._settings[job.id] = job.file.settings()
        return self._settings[job.id]

    @contextmanager
    def _own_fault(self, id: str) -> Iterator[None]:
        """Have a job be declined, or fail, by what is raised of it: the others go on."""
        try:
            yield
        except IllegalMove:
            return
        except Infeasible as error:
            self.queue.become(id, State.DECLINED, explained(error), result={"nearest": [], **error.document([])})
        except (CotuneError, OSError) as error:
            words = explained(error) if isinstance(error, CotuneError) else f"cannot be prepared: {error}"
            self.queue.become(id, State.FAILED, words)

    def _reap(self, end: Preparer) -> None:
        """Take in that a preparation ended; one that came to nothing is tried again a few times."""
        job = end.job
        self._needs.pop(job.id, None)
        if self._unmeasured.pop(job.id, None) is not None:  # it was measured: others of its project may need no more
            self._unmeasured = {id: folder for id, folder in self._unmeasured.items() if folder != job.file.folder}
        after = self.queue.get(job.id)
        if after.state not in (State.PROFILING, State.STOPPING):
            return
        asked = after.state is State.STOPPING
        if end.process.returncode == UNMEASURED and not asked:
            self._unmeasured[job.id] = job.file.folder
            self.queue.change(job.id, states.put_back, "waits to be measured")
            return
        self._tries[job.id] = self._tries.get(job.id, 0) + (0 if asked else 1)
        if not asked and self._tries[job.id] >= TRIES:
            words = f"measuring it ended {self._tries[job.id]} times {end.last_words()}"
            self.queue.become(job.id, State.FAILED, words)
            return
        words = after.reason if asked else f"its measuring was ended {end.last_words()}"
        self.queue.change(job.id, states.put_back, words)


def time_left(job: QueuedJob, deadline: float, now: float) -> float:
    """Return the seconds that are left of a deadline, or raise that it has passed."""
    left = deadline - (now - job.submitted)
    if left <= 0:
        raise Infeasible("its deadline passed before it could be planned", "deadline")
    return left


def _close(one: Preparer) -> None:
    if one.process.stdin is not None:
        one.process.stdin.close()
