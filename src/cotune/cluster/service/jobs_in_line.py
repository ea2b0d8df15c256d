"""The jobs of the queue of which nothing runs: who is to be planned, and who is handed over to the world next.

They are read once, and followed by the queue's events from then on, so that ten thousand jobs that wait cost nothing
while nothing happens to them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from heapq import nsmallest

from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import JobInLine, QueueEvent
from cotune.cluster.service.states import State

_IN_LINE = (State.QUEUED, State.WAITING)


class JobsInLine:
    """Those that wait to be prepared or handed over, as last read."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._seen = queue.last_event()
        self._jobs = {job.id: job for job in queue.line(states=_IN_LINE)}

    def follow(self) -> tuple[Sequence[QueueEvent], Sequence[JobInLine]]:
        """Take in what happened since; return the events, and the jobs to which it happened as they stand now."""
        events = self._queue.events(after=self._seen)
        if not events:
            return (), ()
        self._seen = events[-1].number
        jobs = self._queue.line(ids={event.job for event in events})
        for job in jobs:
            self._jobs.pop(job.id, None)
            if job.state in _IN_LINE:
                self._jobs[job.id] = job
        return events, jobs

    @property
    def is_moving(self) -> bool:
        """Say whether somebody could still go on; who is held does not count."""
        return any(not job.standing.held for job in self._jobs.values())

    @property
    def unplanned(self) -> list[JobInLine]:
        """Return those that wait to be prepared."""
        return [job for job in self._jobs.values() if job.state is State.QUEUED]

    def next_ones(self, most: int, handed: Container[str]) -> set[str]:
        """Return the jobs that arrive next, at most so many; those that were handed over are about to leave first."""
        waiting = [
            job
            for job in self._jobs.values()
            if job.state is State.WAITING and not job.standing.held and job.id not in handed
        ]
        return {job.id for job in nsmallest(max(most, 0), waiting, key=lambda job: job.turn)}

    def remove(self, id: str) -> None:
        """Have a job leave the line, since it arrives."""
        del self._jobs[id]
