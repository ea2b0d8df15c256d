"""How often a job may lose its workers: for ever while it gets on, a few times in a row where it does not."""

from __future__ import annotations

from cotune.cluster.service.queued import QueuedJob
from cotune.types import Sample

FRUITLESS = 5  # losses in a row without an evaluation more than before
MOST = 100  # restarts of a job in all


class Losses:
    """How far each job had come when it last lost workers, and how often it has not come further since."""

    def __init__(self) -> None:
        self._trained: dict[str, float] = {}
        self._fruitless: dict[str, int] = {}

    def too_many(self, job: QueuedJob, start: Sample) -> bool:
        """Count a loss by a start; say whether the job has had too many."""
        before = self._trained.get(job.id, 0.0)
        trained = start.curve[-1].epoch if start.curve else before
        self._trained[job.id] = trained
        self._fruitless[job.id] = 0 if trained > before else self._fruitless.get(job.id, 0) + 1
        return self._fruitless[job.id] > FRUITLESS or job.standing.restarts >= MOST

    def forget(self, id: str) -> None:
        """Let go of a job that has ended."""
        self._trained.pop(id, None)
        self._fruitless.pop(id, None)
