"""What the live world does with a job, noted in the queue: it starts, is asked to stop, has stopped, or lost workers.

Every note is a transaction in the leader's term. What somebody has asked meanwhile is heard where a start is noted: a
job that is cancelled or held by then is not started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cotune.checkpoints import has_checkpoint
from cotune.cluster.journal import AfterLoss, Withdrawn
from cotune.cluster.live_job import Serving
from cotune.cluster.service import states
from cotune.cluster.service.belief import Belief
from cotune.cluster.service.cluster_in_use import ClusterInUse
from cotune.cluster.service.losses import Losses
from cotune.cluster.service.lost_units import EngineDevice, LostUnits
from cotune.cluster.service.states import IllegalMove, State
from cotune.cluster.service.term import TermQueue
from cotune.run.lease import current
from cotune.types import Config, Failure

Log = Callable[..., None]


class QueueJournal:
    """The journal of a leader."""

    def __init__(
        self, notes: TermQueue, beliefs: Mapping[str, Belief], cluster: ClusterInUse, lost_units: LostUnits, log: Log
    ) -> None:
        """Note jobs whose `beliefs` are there as long as they are in the world."""
        self._notes, self._beliefs, self._log = notes, beliefs, log
        self._cluster, self._lost_units = cluster, lost_units
        self._losses = Losses()

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
        job = self._notes.queue.get(_id(served))
        if job.state is State.RUNNING:
            self._notes.become(job.id, State.STOPPING, words)

    def stopped(self, served: Serving) -> None:
        job = self._notes.queue.get(_id(served))
        anew = "" if job.standing.cancelling else ": it will begin anew"
        kept = "" if has_checkpoint(served.folder) else f" without a checkpoint{anew}"
        self._notes.change(job.id, states.put_back, f"{job.reason}; stopped at {served.done:.0%}{kept}")

    def lost(self, served: Serving, failure: Failure) -> AfterLoss:
        id = _id(served)
        job, belief = self._notes.queue.get(id), self._beliefs[id]
        if self._losses.too_many(job, served.starts[-1]) or job.state is not State.RUNNING:
            return AfterLoss.FAILS
        device = served.starts[-1].config.device
        smaller = self._lost_units.noticed_by(
            served.active, EngineDevice(belief.engine, belief.engine_settings, device)
        )
        if smaller:
            self._log("smaller", units=self._cluster.units)
        kept = has_checkpoint(served.folder)
        after = "it goes on from its checkpoint" if kept else "it begins anew, without a checkpoint"
        self._notes.change(id, states.lost, f"{failure}; {after}")
        return AfterLoss.WAITS if smaller or failure.room is not None else AfterLoss.STARTS

    def forget(self, id: str) -> None:
        """Let go of a job that has ended."""
        self._losses.forget(id)


def _id(served: Serving) -> str:
    return served.active.job.name
