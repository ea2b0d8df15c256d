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
ENDED_WELL = frozenset({State.MET, State.DONE})
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
class JobStanding:
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


Move = Callable[[JobStanding], JobStanding]


def moved(standing: JobStanding, state: State) -> JobStanding:
    """Return a job in another state; to stay where it is changes nothing."""
    if state is standing.state:
        return standing
    if state not in NEXT[standing.state]:
        raise IllegalMove(f"a job that is {standing.state} cannot become {state}")
    return replace(standing, state=state, planned=standing.planned or state is State.WAITING)


def begun(standing: JobStanding, state: State, above: int = 0) -> JobStanding:
    """Return a job with its next start, for measuring or for good; a probe is a start too, each with its number.

    The number is higher than `above`, the last one of the start's folder: a store that was restored may know less.
    """
    if state not in (State.PROFILING, State.RUNNING):
        raise IllegalMove(f"nothing is started to become {state}")
    if standing.held or standing.cancelling or standing.is_final:
        raise IllegalMove(f"a job that is {_words(standing)} cannot start")
    return replace(moved(standing, state), fence=max(standing.fence, above) + 1)


def lost(standing: JobStanding) -> JobStanding:
    """Return a running job that has lost workers and may be started again."""
    if standing.state is not State.RUNNING:
        raise IllegalMove(f"a job that is {standing.state} has no workers to lose")
    return replace(moved(standing, State.WAITING), restarts=standing.restarts + 1)


def cancelled(standing: JobStanding, *, led: bool) -> JobStanding:
    """Return a job that somebody cancels: at once, or by its leader where something of it may run."""
    if standing.state is State.CANCELLED:
        return standing
    if standing.is_final:
        raise IllegalMove(f"the job has ended already: it is {standing.state}")
    if led and standing.state in STARTED:
        return replace(moved(standing, State.STOPPING), cancelling=True)
    return replace(moved(standing, State.CANCELLED), fence=standing.fence + 1, cancelling=True)


def held(standing: JobStanding, *, led: bool) -> JobStanding:
    """Return a job that does not start until it is released; one that runs comes to a checkpoint first."""
    if standing.is_final or standing.cancelling:
        raise IllegalMove(f"a job that is {_words(standing)} cannot be held")
    stopped = moved(standing, State.STOPPING) if led and standing.state in STARTED else standing
    return replace(stopped, held=True)


def released(standing: JobStanding) -> JobStanding:
    """Return a job that may start again."""
    if standing.is_final:
        raise IllegalMove(f"the job has ended already: it is {standing.state}")
    return replace(standing, held=False)


def put_back(standing: JobStanding) -> JobStanding:
    """Return a job nothing of which runs any more, as the next leader finds it or the present one has stopped it."""
    if standing.state not in STARTED:
        return standing
    if standing.cancelling:
        return moved(standing, State.CANCELLED)
    return moved(standing, State.WAITING if standing.planned else State.QUEUED)


def _words(standing: JobStanding) -> str:
    if standing.is_final:
        return standing.state.value
    return "being cancelled" if standing.cancelling else "held" if standing.held else standing.state.value
