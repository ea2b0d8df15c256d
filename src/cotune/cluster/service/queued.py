"""What a queue holds: submitted jobs, their places in line, what happened to them, and who works them off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import JobStanding, State

MOST_PRIORITY = 1_000_000  # that a job is given while it is in the queue, or the least
STANDING = ("state", "fence", "held", "cancelling", "restarts")  # columns, as `JobStanding` has them


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A submitted job as it stands; times are seconds since 1970 on the store's clock."""

    number: int
    id: str
    name: str
    team: str
    priority: int
    standing: JobStanding
    reason: str
    workers: int
    file: JobSnapshot
    folder: str | None  # where the files of its starts are, once there was one
    target: Mapping[str, Any] | None
    deadline: float | None  # seconds after it was submitted
    submitted: float
    changed: float
    eta: tuple[float, float, float] | None  # when it ends, by the 10th, 50th and 90th percentile
    belief: Mapping[str, Any] | None  # what was learnt of it, see `belief`
    result: Mapping[str, Any] | None  # what became of it, beside what was forecast

    @property
    def state(self) -> State:
        return self.standing.state

    @property
    def is_final(self) -> bool:
        return self.standing.is_final

    @property
    def user(self) -> str:
        """Return who submitted it."""
        return self.file.user

    @classmethod
    def of(cls, row: dict[str, Any]) -> QueuedJob:
        """Return the job of a row of the table, whose columns are taken out of it."""
        standing = JobStanding(
            State(row.pop("state")),
            row.pop("fence"),
            row.pop("held"),
            row.pop("cancelling"),
            row.pop("restarts"),
            planned=row["belief"] is not None,
        )
        low_to_high: Sequence[float] | None = row.pop("eta")
        eta = None if low_to_high is None else (low_to_high[0], low_to_high[1], low_to_high[2])
        return cls(standing=standing, eta=eta, file=JobSnapshot.of(row.pop("file")), **row)


@dataclass(frozen=True, slots=True)
class JobInLine:
    """A submitted job without its file and its plan: ten thousand of them are kept in mind."""

    number: int
    id: str
    name: str
    priority: int
    standing: JobStanding
    reason: str

    @property
    def state(self) -> State:
        return self.standing.state

    @property
    def turn(self) -> tuple[int, int]:
        """Return where it stands: higher priority first, then first come."""
        return -self.priority, self.number


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """Something that happened to a job: what it became, and why."""

    number: int
    job: str
    at: float
    state: State
    fence: int
    words: str


@dataclass(frozen=True, slots=True)
class Leader:
    """Who works the queue off, in which term, until when unless it says more, and what it says of itself."""

    holder: str
    term: int
    expires: float  # on the store's clock
    about: Mapping[str, Any]
    is_alive: bool
