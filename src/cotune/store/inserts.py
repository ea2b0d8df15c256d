"""Rows into a store, so that what is told twice changes nothing: jobs as they are met, samples as they grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Table, and_, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from cotune.store.schema import evaluations, jobs, samples

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
