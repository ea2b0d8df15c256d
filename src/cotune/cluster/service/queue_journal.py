"""What the live world does with a job, noted in the queue: it starts, is asked to stop, has stopped, or lost workers.

Every note is a transaction in the leader's term. What somebody has asked meanwhile is heard where a start is noted: a
job that is cancelled or held by then is not started. A job may lose its workers for ever while it gets on, and a few
times in a row where it does not.
"""

from __future__ import annotations

from collections.abc import Callable

from cotune.checkpoints import has_checkpoint
from cotune.cluster.service import states
from cotune.cluster.service.cluster_in_use import ClusterInUse, EngineDevice, LostUnits
from cotune.cluster.service.live import AfterLoss, Journal, Withdrawn
from cotune.cluster.service.live_job import LiveJob
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueuedJob
from cotune.cluster.service.states import IllegalMove, State
from cotune.run.lease import current
from cotune.types import Config, Failure, Sample

Log = Callable[..., None]
FRUITLESS = 5  # losses in a row without an evaluation more than before
MOST = 100  # restarts of a job in all


class QueueJournal(Journal):
    """The journal of a leader."""

    def __init__(self, queue: Queue, cluster: ClusterInUse, lost_units: LostUnits, log: Log) -> None:
        self._queue, self._cluster, self._lost_units, self._log = queue, cluster, lost_units, log
        self._trained: dict[str, float] = {}  # epochs of each job when it last lost workers
        self._fruitless: dict[str, int] = {}  # and how often it has not come further since

    def starting(self, job: LiveJob, config: Config) -> int | None:
        words = f"{config}" + (f", resuming from {job.done:.0%}" if job.done > 0 else "")
        above = current(job.folder)
        try:
            begun = self._queue.change(
                job.id, lambda status: states.begun(status, State.RUNNING, above), words, workers=config.units
            )
        except IllegalMove as error:
            raise Withdrawn(str(error)) from None
        return begun.status.fence

    def stopping(self, job: LiveJob, words: str) -> None:
        if self._queue.get(job.id).state is State.RUNNING:
            self._queue.become(job.id, State.STOPPING, words)

    def stopped(self, job: LiveJob) -> None:
        queued = self._queue.get(job.id)
        anew = "" if queued.status.cancelling else ": it will begin anew"
        kept = "" if has_checkpoint(job.folder) else f" without a checkpoint{anew}"
        self._queue.change(job.id, states.put_back, f"{queued.reason}; stopped at {job.done:.0%}{kept}")

    def lost(self, job: LiveJob, failure: Failure) -> AfterLoss:
        queued, start = self._queue.get(job.id), job.starts[-1]
        if self._too_many(queued, start) or queued.state is not State.RUNNING:
            return AfterLoss.FAILS
        where = EngineDevice(job.planned.engine, job.planned.engine_settings, start.config.device)
        smaller = self._lost_units.noticed_by(job.active, where)
        if smaller:
            self._log("smaller", units=self._cluster.units)
        kept = has_checkpoint(job.folder)
        after = "it resumes from its checkpoint" if kept else "it begins anew, without a checkpoint"
        self._queue.change(job.id, states.lost, f"{failure}; {after}")
        return AfterLoss.WAITS if smaller or failure.room is not None else AfterLoss.STARTS

    def _too_many(self, job: QueuedJob, start: Sample) -> bool:
        """Count a loss by a start; say whether the job has had too many."""
        before = self._trained.get(job.id, 0.0)
        trained = start.curve[-1].epoch if start.curve else before
        self._trained[job.id] = trained
        self._fruitless[job.id] = 0 if trained > before else self._fruitless.get(job.id, 0) + 1
        return self._fruitless[job.id] > FRUITLESS or job.status.restarts >= MOST

    def forget(self, id: str) -> None:
        """Let go of a job that has ended."""
        self._trained.pop(id, None)
        self._fruitless.pop(id, None)
