"""The queue of jobs in a store: whoever submits, looks, holds or cancels does it here, with or without a service.

    Queue(store).submit(snapshot) ─▶ id        .jobs() .get(id) .events(id) .cancel(id) .hold(id) .release(id)

Every change of state is one transaction that also writes an event; the events of a store are numbered in the order in
which they were written, so that whoever follows them misses none. What only the leader does, such as starting a job,
is written in its term, `Queue(store, term)`, and refused once another one leads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, select, update

from cotune.cluster.service import states
from cotune.cluster.service.leadership import SERVICE, Leader, NoLongerLeading, clock, stored_leader
from cotune.cluster.service.queued import STATUS, ListedJob, QueuedJob, QueueEvent
from cotune.cluster.service.rules import ServiceRules, require_room, stored_rules
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import JobStatus, State
from cotune.errors import NotFound, UsageError
from cotune.identity import new_id
from cotune.safety.printable import printable
from cotune.store import Store
from cotune.store.schema import leaders, queue, queue_events, service_rules

_SHOWN = 5
_LISTED = (
    *("number", "id", "name", "team", "priority", "reason", "workers", "target", "deadline", "submitted", "changed"),
    *("eta", *STATUS),
)
_MOST_WORDS = 4000  # letters of a reason


@dataclass(frozen=True, slots=True)
class Queue:
    """The submitted jobs of one store; with a term it changes them only while that leader leads."""

    store: Store
    term: int | None = None

    def submit(self, file: JobSnapshot, *, held: bool = False) -> str:
        """Keep a job to be run; return its id. The job file is kept as it is now."""
        id = new_id()

        def write(connection: Connection) -> None:
            if connection.scalar(select(queue.c.id).where(queue.c.id == id)) is not None:
                return  # the answer to an earlier try was lost
            require_room(connection, file.team)
            now = clock(connection)
            row = {
                "id": id,
                "name": file.name,
                "team": file.team,
                "priority": file.priority,
                **_columns(JobStatus(held=held)),
                "reason": "submitted" + (" and held" if held else ""),
                "workers": 0,
                "file": asdict(file),
                "target": file.target,
                "deadline": file.deadline,
                "submitted": now,
                "changed": now,
            }
            connection.execute(queue.insert(), row)
            _write_event(connection, id, now, JobStatus(held=held), row["reason"])

        self.store.transact(write)
        return id

    def jobs(
        self,
        *,
        states: Collection[State] | None = None,
        team: str | None = None,
        ids: Collection[str] | None = None,
    ) -> tuple[QueuedJob, ...]:
        """Return the jobs in the order they were submitted, of some states, a team or some ids."""
        query = select(queue).where(*_wanted(states, team, ids)).order_by(queue.c.number)
        return self.store.ask(lambda connection: tuple(map(_job, connection.execute(query))))

    def listed(
        self,
        *,
        states: Collection[State] | None = None,
        team: str | None = None,
        ids: Collection[str] | None = None,
        last: int | None = None,
    ) -> tuple[ListedJob, ...]:
        """Return the same as a list shows them; `last`: the newest."""
        shown = [queue.c[name] for name in _LISTED]
        user = func.coalesce(queue.c.file["user"].as_string(), "").label("user")
        query = select(*shown, user).where(*_wanted(states, team, ids)).order_by(queue.c.number.desc()).limit(last)
        found = self.store.ask(lambda connection: [ListedJob.of(row._asdict()) for row in connection.execute(query)])
        return tuple(reversed(found))

    def counts(self) -> dict[State, int]:
        """Return how many jobs there are of each state."""
        query = select(queue.c.state, func.count()).group_by(queue.c.state)
        found = self.store.ask(lambda connection: [(row[0], row[1]) for row in connection.execute(query)])
        return dict.fromkeys(State, 0) | {State(state): count for state, count in found}

    def starts(self) -> int:
        """Return how often jobs were started, probes included."""
        return self.store.ask(lambda connection: int(connection.scalar(select(func.sum(queue.c.fence))) or 0))

    def get(self, id: str) -> QueuedJob:
        """Return a job by its id or the first letters of it, else by its name: the one still open, or the only one."""
        if not id:
            raise UsageError("a job is named by its id, or by enough of its first letters")
        begins = func.substr(queue.c.id, 1, len(id)) == id

        def read(connection: Connection) -> list[QueuedJob]:
            for wanted in (begins, queue.c.name == id):
                found = connection.execute(select(queue).where(wanted).order_by(queue.c.number)).all()
                if found:
                    return list(map(_job, found))
            return []

        found = self.store.ask(read)
        exact = [job for job in found if job.id == id]
        still_open = [job for job in found if job.name == id and not job.is_final]
        for likely in (exact, found, still_open):
            if len(likely) == 1:
                return likely[0]
        if not found:
            raise NotFound(
                f"no job {printable(id)[:80]!r} in the queue of {self.store.label}; `cotune queue` lists them"
            )
        ids = ", ".join(job.id for job in found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
        raise UsageError(f"{len(found)} jobs are called {id!r}: {ids}; give the id")

    def events(self, job: str | None = None, *, after: int = 0, most: int | None = None) -> tuple[QueueEvent, ...]:
        """Return what happened after an event, of one job (by its whole id) or of all, oldest first."""
        wanted = queue_events.c.number > after
        wanted = wanted if job is None else and_(wanted, queue_events.c.job == job)
        query = select(queue_events).where(wanted).order_by(queue_events.c.number).limit(most)
        return self.store.ask(
            lambda connection: tuple(
                QueueEvent(row.number, row.job, row.at, State(row.state), row.fence, row.words)
                for row in connection.execute(query)
            )
        )

    def last_event(self) -> int:
        """Return the number of the latest event, 0 where there is none."""
        return self.store.ask(lambda connection: connection.scalar(select(func.max(queue_events.c.number))) or 0)

    def cancel(self, id: str, by: str = "") -> QueuedJob:
        """Cancel a job; one that runs is stopped by its leader. Cancelling twice changes nothing."""
        return self._asked(id, lambda status, led: states.cancelled(status, led=led), "cancelled", by)

    def hold(self, id: str, by: str = "") -> QueuedJob:
        """Keep a job from starting until it is released; one that runs is stopped at a checkpoint."""
        return self._asked(id, lambda status, led: states.held(status, led=led), "held", by)

    def release(self, id: str, by: str = "") -> QueuedJob:
        """Let a job start that was held."""
        return self._asked(id, lambda status, _: states.released(status), "released", by)

    def prioritise(self, id: str, priority: int, by: str = "") -> QueuedJob:
        """Give a job that has not ended another priority; higher goes first."""

        def unless_final(status: JobStatus, _: bool) -> JobStatus:
            if status.is_final:
                raise states.IllegalMove(f"the job has ended already: it is {status.state}")
            return status

        return self._asked(id, unless_final, f"priority {priority}", by, priority=priority)

    def rules(self) -> ServiceRules:
        """Return what a service goes by, as it was changed last."""
        return self.store.ask(stored_rules)

    def change_rules(
        self,
        policy: str | None = None,
        quotas: Mapping[str, Mapping[str, int | None]] | None = None,
        *,
        by: str = "",
    ) -> ServiceRules:
        """Change the policy, or some limits of some teams (None takes one away); return what holds now."""

        def write(connection: Connection) -> ServiceRules:
            before = stored_rules(connection)
            after = before.changed(policy, quotas)
            if after != before:
                row = {"at": clock(connection), "by": by, "rules": after.document()}
                connection.execute(service_rules.insert(), row)
            return after

        return self.store.transact(write)

    def leader(self) -> Leader | None:
        """Return who leads, or led last."""
        return self.store.ask(stored_leader)

    def now(self) -> float:
        """Return the time on the store's clock."""
        return self.store.ask(clock)

    def become(self, id: str, state: State, words: str, **values: Any) -> QueuedJob:
        """Have a job become something else, and tell why."""
        return self.change(id, lambda status: states.moved(status, state), words, **values)

    def change(self, id: str, move: states.Move, words: str, **values: Any) -> QueuedJob:
        """Make a move of a job and tell why, in one transaction.

        `values` are other columns (`workers`, `folder`, `eta`, `belief`, `result`) that change with it.
        """

        def write(connection: Connection) -> QueuedJob:
            self._require_term(connection)
            job = self._locked(connection, id)
            return self._put(connection, job, move(job.status), words, values)

        return self.store.transact(write)

    def update(self, values: Mapping[str, Mapping[str, Any]]) -> None:
        """Change columns of some jobs that are not worth an event, such as when they will end."""

        def write(connection: Connection) -> None:
            self._require_term(connection)
            for id, columns in values.items():
                connection.execute(update(queue).where(queue.c.id == id).values(**columns))

        self.store.transact(write)

    def _require_term(self, connection: Connection) -> None:
        """Refuse what a leader writes after its term."""
        if self.term is None:
            return
        latest = connection.scalar(select(leaders.c.term).where(leaders.c.name == SERVICE).with_for_update())
        if latest != self.term:
            raise NoLongerLeading(f"another service leads (term {latest}, this one had {self.term})")

    def _asked(
        self, id: str, move: Callable[[JobStatus, bool], JobStatus], words: str, by: str, **values: Any
    ) -> QueuedJob:
        whole = self.get(id).id

        def write(connection: Connection) -> QueuedJob:
            job = self._locked(connection, whole)
            led = connection.scalar(select(leaders.c.expires).where(leaders.c.name == SERVICE))
            alive = led is not None and led > clock(connection)  # or as good as: the next one ends what it ran
            return self._put(connection, job, move(job.status, alive), f"{words}{f' by {by}' if by else ''}", values)

        return self.store.transact(write)

    def _locked(self, connection: Connection, id: str) -> QueuedJob:
        """Return a job that nobody else changes before this transaction ends; SQLite has one writer anyway."""
        row = connection.execute(select(queue).where(queue.c.id == id).with_for_update()).one_or_none()
        if row is None:
            raise NotFound(f"no job {id!r} in the queue of {self.store.label}")
        return _job(row)

    def _put(
        self, connection: Connection, job: QueuedJob, after: JobStatus, words: str, values: Mapping[str, Any]
    ) -> QueuedJob:
        unchanged = after == job.status and all(getattr(job, name) == value for name, value in values.items())
        if unchanged:
            return job
        now, reason = clock(connection), printable(words)[:_MOST_WORDS]
        running = {} if after.state in (State.RUNNING, State.PROFILING) else {"workers": 0}
        ended = {"eta": None} if after.is_final or after.held else {}
        columns = {**_columns(after), **running, **ended, **values, "reason": reason, "changed": now}
        connection.execute(update(queue).where(queue.c.id == job.id).values(**columns))
        _write_event(connection, job.id, now, after, reason)
        row = connection.execute(select(queue).where(queue.c.id == job.id)).one()
        return _job(row)


def _write_event(connection: Connection, id: str, now: float, status: JobStatus, words: str) -> None:
    if connection.dialect.name == "postgresql":  # numbers must be seen in the order they are given out
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(queue_events.name))))
    row = {"job": id, "at": now, "state": status.state.value, "fence": status.fence, "words": words}
    connection.execute(queue_events.insert(), row)


def _job(row: Row[Any]) -> QueuedJob:
    return QueuedJob.of(row._asdict())


def _wanted(
    states: Collection[State] | None, team: str | None, ids: Collection[str] | None
) -> Iterator[ColumnElement[bool]]:
    if states is not None:
        yield queue.c.state.in_([state.value for state in states])
    if team is not None:
        yield queue.c.team == team
    if ids is not None:
        yield queue.c.id.in_(ids)


def _columns(status: JobStatus) -> dict[str, Any]:
    return {name: getattr(status, name) for name in STATUS} | {"state": status.state.value}
