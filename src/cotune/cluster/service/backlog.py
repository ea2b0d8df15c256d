"""The backlog: jobs of the queue of which nothing runs, who is to be planned, and who arrives in the world next.

They are read once, and followed by the queue's events from then on, so that ten thousand jobs that wait cost nothing
while nothing happens to them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from heapq import nsmallest

from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import ListedJob, QueueEvent
from cotune.cluster.service.states import State

_OPEN = (State.QUEUED, State.WAITING)


class Backlog:
    """Those that wait to be planned or to arrive, as last read."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._seen = queue.last_event()
        self._jobs = {job.id: job for job in queue.listed(states=_OPEN)}

    def follow(self) -> tuple[Sequence[QueueEvent], Sequence[ListedJob]]:
        """Take in what happened since; return the events, and the jobs to which it happened as they stand now."""
        events = self._queue.events(after=self._seen)
        if not events:
            return (), ()
        self._seen = events[-1].number
        jobs = self._queue.listed(ids={event.job for event in events})
        for job in jobs:
            self._jobs.pop(job.id, None)
            if job.state in _OPEN:
                self._jobs[job.id] = job
        return events, jobs

    @property
    def is_moving(self) -> bool:
        """Say whether somebody could still go on; who is held does not count."""
        return any(not job.status.held for job in self._jobs.values())

    @property
    def unplanned(self) -> list[ListedJob]:
        """Return those that wait to be prepared."""
        return [job for job in self._jobs.values() if job.state is State.QUEUED]

    def next_ones(self, most: int, present: Container[str]) -> set[str]:
        """Return the jobs that arrive next, at most so many; those that are present have to leave first."""
        waiting = [
            job
            for job in self._jobs.values()
            if job.state is State.WAITING and not job.status.held and job.id not in present
        ]
        return {job.id for job in nsmallest(max(most, 0), waiting, key=lambda job: job.turn)}

    def remove(self, id: str) -> None:
        """Have a job leave the backlog, since it arrives."""
        del self._jobs[id]
