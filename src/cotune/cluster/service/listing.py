"""The jobs of a queue as a list shows them: without their files, plans and results, most of what is stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, select, true

from cotune.cluster.service.queued import STANDING
from cotune.cluster.service.states import JobStanding, State
from cotune.store import Store
from cotune.store.schema import queue


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A submitted job as a list shows it; the fields mean what they do in `QueuedJob`."""

    id: str
    name: str
    team: str
    priority: int
    standing: JobStanding
    reason: str
    workers: int
    user: str
    target: Mapping[str, Any] | None
    deadline: float | None
    submitted: float
    changed: float
    eta: Sequence[float] | None

    @property
    def state(self) -> State:
        return self.standing.state


_SHOWN = ("id", "name", "team", "priority", "reason", "workers", "target", "deadline", "submitted", "changed", "eta")


def listed(
    store: Store, *, states: Collection[State] | None = None, team: str | None = None, last: int | None = None
) -> tuple[ListedJob, ...]:
    """Return jobs in the order they were submitted, of some states or a team; `last`: the newest."""
    wanted: list[ColumnElement[bool]] = [true()]
    wanted += [queue.c.state.in_([state.value for state in states])] if states is not None else []
    wanted += [queue.c.team == team] if team is not None else []
    shown = [queue.c[name] for name in (*_SHOWN, *STANDING)]
    user = queue.c.file["user"].as_string()
    query = select(*shown, user).where(and_(*wanted)).order_by(queue.c.number.desc()).limit(last)
    known = {state.value: state for state in State}

    def read(connection: Connection) -> list[ListedJob]:
        found = []
        for row in connection.execute(query):
            (id, name, of_team, priority, reason, workers, target, deadline, submitted, changed, eta,
             state, fence, held, cancelling, restarts, by) = row  # fmt: skip
            standing = JobStanding(known[state], fence, held, cancelling, restarts)
            found.append(
                ListedJob(
                    id, name, of_team, priority, standing, reason, workers, by or "", target, deadline, submitted,
                    changed, eta,
                )
            )  # fmt: skip
        return found

    return tuple(reversed(store.ask(read)))
