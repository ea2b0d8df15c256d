"""The queue as its leader writes it: every note carries the term, and is refused once another one leads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cotune.cluster.service import states
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueuedJob
from cotune.cluster.service.states import State


@dataclass(frozen=True, slots=True)
class TermQueue:
    """A queue during one term of one leader."""

    queue: Queue
    term: int

    def change(self, id: str, move: states.Move, words: str, **values: Any) -> QueuedJob:
        """Make a move of a job and tell why."""
        return self.queue.change(id, move, words, term=self.term, **values)

    def become(self, id: str, state: State, words: str, **values: Any) -> QueuedJob:
        """Have a job become something else, and tell why."""
        return self.change(id, lambda standing: states.moved(standing, state), words, **values)
