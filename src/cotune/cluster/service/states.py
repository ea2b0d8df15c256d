"""What a submitted job may become: pure moves between states, each of which the queue makes one transaction.

    queued      not looked at yet
    profiling   being measured
    waiting     planned and admitted; others have the workers now, or it is held
    running     has workers
    stopping    comes to a checkpoint: for others, because it is held or cancelled, or the service goes down
    met, missed, done, failed, declined, cancelled      final: it never starts again

Every start takes the next fencing number. It never falls, so a start that knows a lower one is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from cotune.errors import UsageError


class State(StrEnum):
    """Where a submitted job stands."""

    QUEUED = "queued"
    PROFILING = "profiling"
    WAITING = "waiting"
    RUNNING = "running"
    STOPPING = "stopping"
    MET = "met"
    MISSED = "missed"
    DONE = "done"
    FAILED = "failed"
    DECLINED = "declined"
    CANCELLED = "cancelled"


FINAL = frozenset({State.MET, State.MISSED, State.DONE, State.FAILED, State.DECLINED, State.CANCELLED})
STARTED = frozenset({State.PROFILING, State.RUNNING, State.STOPPING})  # something of it may run
_ENDS = frozenset({State.MET, State.MISSED, State.DONE, State.FAILED, State.CANCELLED})
NEXT: Mapping[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.PROFILING, State.WAITING, State.FAILED, State.DECLINED, State.CANCELLED}),
    State.PROFILING: frozenset(
        {State.QUEUED, State.WAITING, State.STOPPING, State.FAILED, State.DECLINED, State.CANCELLED}
    ),
    State.WAITING: frozenset({State.QUEUED, State.RUNNING, State.DECLINED, *_ENDS}),
    State.RUNNING: frozenset({State.WAITING, State.STOPPING, State.DECLINED, *_ENDS}),
    State.STOPPING: frozenset({State.QUEUED, State.WAITING, State.DECLINED, *_ENDS}),
    **{state: frozenset() for state in FINAL},
}


class IllegalMove(UsageError):
    """A job that cannot become what is asked: it has ended, is held, or stands elsewhere."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Where a job stands, and what is asked of it meanwhile."""

    state: State = State.QUEUED
    fence: int = 0
    held: bool = False
    cancelling: bool = False
    restarts: int = 0  # after a lost worker or node
    planned: bool = False  # it was measured, and what is believed of it is known

    @property
    def is_final(self) -> bool:
        return self.state in FINAL


Move = Callable[[JobStatus], JobStatus]


def moved(status: JobStatus, state: State) -> JobStatus:
    """Return a job in another state; to stay where it is changes nothing."""
    if state is status.state:
        return status
    if state not in NEXT[status.state]:
        raise IllegalMove(f"a job that is {status.state} cannot become {state}")
    return replace(status, state=state, planned=status.planned or state is State.WAITING)


def begun(status: JobStatus, state: State, above: int = 0) -> JobStatus:
    """Return a job with its next start, for measuring or for good; a probe is a start too, each with its number.

    The number is higher than `above`, the last one of the start's folder: a store that was restored may know less.
    """
    if state not in (State.PROFILING, State.RUNNING):
        raise IllegalMove(f"nothing is started to become {state}")
    if status.held or status.cancelling or status.is_final:
        raise IllegalMove(f"a job that is {_words(status)} cannot start")
    return replace(moved(status, state), fence=max(status.fence, above) + 1)


def lost(status: JobStatus) -> JobStatus:
    """Return a running job that has lost workers and may be started again."""
    if status.state is not State.RUNNING:
        raise IllegalMove(f"a job that is {status.state} has no workers to lose")
    return replace(moved(status, State.WAITING), restarts=status.restarts + 1)


def cancelled(status: JobStatus, *, led: bool) -> JobStatus:
    """Return a job that somebody cancels: at once, or by its leader where something of it may run."""
    if status.state is State.CANCELLED:
        return status
    if status.is_final:
        raise IllegalMove(f"the job has ended already: it is {status.state}")
    if led and status.state in STARTED:
        return replace(moved(status, State.STOPPING), cancelling=True)
    return replace(moved(status, State.CANCELLED), fence=status.fence + 1, cancelling=True)


def held(status: JobStatus, *, led: bool) -> JobStatus:
    """Return a job that does not start until it is released; one that runs comes to a checkpoint first."""
    if status.is_final or status.cancelling:
        raise IllegalMove(f"a job that is {_words(status)} cannot be held")
    stopped = moved(status, State.STOPPING) if led and status.state in STARTED else status
    return replace(stopped, held=True)


def released(status: JobStatus) -> JobStatus:
    """Return a job that may start again."""
    if status.is_final:
        raise IllegalMove(f"the job has ended already: it is {status.state}")
    return replace(status, held=False)


def put_back(status: JobStatus) -> JobStatus:
    """Return a job nothing of which runs any more, as the next leader finds it or the present one has stopped it."""
    if status.state not in STARTED:
        return status
    if status.cancelling:
        return moved(status, State.CANCELLED)
    return moved(status, State.WAITING if status.planned else State.QUEUED)


def _words(status: JobStatus) -> str:
    if status.is_final:
        return status.state.value
    return "being cancelled" if status.cancelling else "held" if status.held else status.state.value
