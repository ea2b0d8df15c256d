"""An open database: one transaction at a time, errors of one line, and patience with one that is away.

A team's database may be away for a while: samples then wait on disk (`spool`), readers wait for it, and what waited is
written before anything else is asked. An empty database gets its tables as it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import URL, ColumnElement, Connection, Table, and_, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from cotune.errors import InvalidFile
from cotune.store import schema
from cotune.store.location import WRITE, OutOfReach, connect, label, one_line_errors, work_folder, write_ahead
from cotune.store.schema import evaluations, jobs, samples
from cotune.store.spool import OUTAGE, OutagePolicy, Spool, SpooledSample

Answer = TypeVar("Answer")


class StoreConnection:
    """An open database with the tables of a store."""

    def __init__(self, url: URL, outage: OutagePolicy = OUTAGE) -> None:
        self.url = url
        self.label = label(url)
        self._engine = connect(url)
        dialect = self._engine.dialect.name
        self._writes = self._engine.execution_options(begin=WRITE)
        # Both queries of a read see the same moment; SQLite's transactions always do.
        snapshot = {"isolation_level": "REPEATABLE READ"} if dialect == "postgresql" else {}
        self._reads = self._engine.execution_options(**snapshot)
        self.spool = Spool(work_folder(Path()), self.label, outage) if dialect == "postgresql" else None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Make the store ready; one that is just starting up is waited for, one that is not there is not."""
        try:
            self._prepare()
        except OutOfReach as error:
            if self.spool is None or "the database system is" not in str(error):
                raise
            self.spool.until_back(self._prepare)
        if self.spool is not None:
            self.spool.adopt(self.put)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self._catch_up(None if kind is None else 0.0)
        except OutOfReach:
            if kind is None:  # else there is something worse to tell
                raise
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the database; what still waits for it is written by the next process that opens it."""
        self._engine.dispose()

    def _catch_up(self, patience: float | None = None) -> None:
        """Write what waits for the database, if anything does."""
        spool = self.spool
        if spool is not None and spool.waiting:
            spool.until_back(lambda: spool.flush(self.put), patience=patience)

    def ask(self, question: Callable[[Connection], Answer]) -> Answer:
        """Return what the store answers, all that was saved included, waiting for one that is away."""

        def ask() -> Answer:
            with self.reading() as connection:
                return question(connection)

        self._catch_up()
        return ask() if self.spool is None else self.spool.until_back(ask)

    def transact(self, write: Callable[[Connection], Answer]) -> Answer:
        """Write in a transaction, waiting for a store that is away; what is told twice must change nothing."""

        def tell() -> Answer:
            with self.writing() as connection:
                return write(connection)

        self._catch_up()
        return tell() if self.spool is None else self.spool.until_back(tell)

    def _prepare(self) -> None:
        with self.reading() as connection:
            if schema.is_ready(connection, self.label):
                return
        if self.url.get_backend_name() == "sqlite":
            with one_line_errors(self.url):
                write_ahead(self._engine)
        with self.writing() as connection:
            schema.create(connection, self.label)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that sees one moment of the store; its errors are one line each."""
        try:
            with one_line_errors(self.url), self._reads.begin() as connection:
                yield connection
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise InvalidFile(f"the store {self.label} holds a row that cannot be read ({reason})") from None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection whose changes are one transaction."""
        with one_line_errors(self.url), self._writes.begin() as connection:
            yield connection

    def put(self, entry: SpooledSample) -> None:
        """Write a sample that had to wait."""
        with self.writing() as connection:
            introduce(connection, entry.job)
            upsert(connection, entry.sample)
            append(connection, entry.id, entry.curve, lambda point, *_: point)


Point = TypeVar("Point")


def insert(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return an insert that can say what to do about a row that is there, in the database's own dialect."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def introduce(connection: Connection, row: Mapping[str, Any]) -> None:
    """Add a job unless it is known; one that is known may name its model later."""
    connection.execute(insert(connection, jobs).on_conflict_do_nothing(), row)
    if row["definition"].get("model") is not None:
        own = and_(jobs.c.name == row["name"], jobs.c.fingerprint == row["fingerprint"])
        connection.execute(update(jobs).where(own).values(definition=row["definition"]))


def upsert(connection: Connection, row: Mapping[str, Any]) -> None:
    """Write a sample as it is now."""
    new = insert(connection, samples).values(row)
    written = new.on_conflict_do_update(
        index_elements=["id"],
        set_={name: new.excluded[name] for name in row if name != "id"},
        where=of_job(samples, new.excluded.job, new.excluded.fingerprint),
    ).returning(samples.c.number)
    if connection.scalar(written) is None:
        raise ValueError(f"sample {row['id']} belongs to another job")


def append(
    connection: Connection, id: str, curve: Sequence[Point], of: Callable[[Point, str, int], Mapping[str, Any]]
) -> None:
    """Add the points of a sample's curve that are not there yet; `of` returns the columns of one."""
    if not curve:
        return
    stored = connection.scalar(select(func.count()).where(evaluations.c.sample == id)) or 0
    points = [dict(of(point, id, place)) for place, point in enumerate(curve[stored:], stored)]
    if points:
        connection.execute(evaluations.insert(), points)


def of_job(table: Any, name: Any, fingerprint: Any) -> ColumnElement[bool]:
    """Return the condition that rows belong to a job."""
    return and_(table.c.job == name, table.c.fingerprint == fingerprint)
