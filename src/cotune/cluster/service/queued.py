"""What a queue holds: submitted jobs, and what happened to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import JobStatus, State

MOST_PRIORITY = 1_000_000  # that a job is given while it is in the queue, or the least
STATUS = ("state", "fence", "held", "cancelling", "restarts")  # columns, as `JobStatus` has them


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A submitted job as a list shows it: without its file, plan and result, most of what is stored.

    Times are seconds since 1970 on the store's clock.
    """

    number: int
    id: str
    name: str
    team: str
    priority: int
    status: JobStatus
    reason: str
    workers: int
    user: str  # who submitted it
    target: Mapping[str, Any] | None
    deadline: float | None  # seconds after it was submitted
    submitted: float
    changed: float
    eta: Sequence[float] | None  # when it ends, by the 10th, 50th and 90th percentile

    @property
    def state(self) -> State:
        return self.status.state

    @property
    def is_final(self) -> bool:
        return self.status.is_final

    @property
    def turn(self) -> tuple[int, int]:
        """Return its place in the queue: higher priority first, then first come."""
        return -self.priority, self.number

    @classmethod
    def of(cls, row: dict[str, Any]) -> Self:
        """Return the job of a row of the table, whose columns are taken out of it."""
        return cls(status=_status(row), **row)


@dataclass(frozen=True, slots=True)
class QueuedJob(ListedJob):
    """A submitted job with all that is stored of it."""

    file: JobSnapshot
    folder: str | None  # where the files of its starts are, once there was one
    belief: Mapping[str, Any] | None  # what was learnt of it, see `PlannedJob`
    result: Mapping[str, Any] | None  # what became of it, beside what was forecast

    @classmethod
    def of(cls, row: dict[str, Any]) -> Self:
        file = JobSnapshot(**row.pop("file"))
        return cls(status=_status(row), file=file, user=file.user, **row)


def _status(row: dict[str, Any]) -> JobStatus:
    columns = {name: row.pop(name) for name in STATUS}
    columns["state"] = State(columns["state"])
    return JobStatus(**columns, planned=row.get("belief") is not None)


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """Something that happened to a job: what it became, and why."""

    number: int
    job: str
    at: float
    state: State
    fence: int
    words: str
