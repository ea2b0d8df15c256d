"""The tables, and how a store of any earlier version becomes one of this version.

    version 1   jobs, samples, evaluations
    version 2   plans; samples know their writer
    version 3   samples know whether part of their machine was modelled
    version 4   steps of models, with their fingerprints
    version 5   plans know what they were chosen from; results of other verbs, to be looked at
    version 6   samples know their seed, and the memory of their workers
    version 7   runs know their goal
    version 8   failures know their cause, and the room that was left
    version 9   samples know what else their machine did meanwhile

A migration is a function, applied in order, all in one transaction. What a version
once created is never edited here: a change is a new version.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    false,
    func,
    inspect,
    select,
    text,
)

from cotune.errors import InvalidFile

_OPTIONAL_JSON = JSON(none_as_null=True)

_FIRST = MetaData()
Table(
    "jobs",
    _FIRST,
    Column("name", String, primary_key=True),
    Column("fingerprint", String, primary_key=True),
    Column("definition", JSON, nullable=False),
    Column("first_seen", String, nullable=False),
)
Table(
    "samples",
    _FIRST,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("job", String, nullable=False),
    Column("fingerprint", String, nullable=False),
    Column("config", JSON, nullable=False),
    Column("workers", BigInteger, nullable=False),
    Column("batch_size", BigInteger, nullable=False),
    Column("accumulate", BigInteger, nullable=False),
    Column("servers", BigInteger, nullable=False),
    Column("device", String, nullable=False),
    Column("global_batch", BigInteger, nullable=False),
    Column("purpose", String, nullable=False),
    Column("engine", String, nullable=False),
    Column("started", String, nullable=False),
    Column("epochs", Double, nullable=False),
    Column("epoch_seconds", Double),
    Column("accuracy", Double),
    Column("terms", JSON, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("failure", String),
    Column("warning", String),
    Column("ended", Boolean, nullable=False),
    Column("folder", String, nullable=False),
    Column("resumed_from", String),
    ForeignKeyConstraint(["job", "fingerprint"], ["jobs.name", "jobs.fingerprint"]),
    Index("samples_of_job", "job", "fingerprint"),
)
Table(
    "evaluations",
    _FIRST,
    Column("sample", String, ForeignKey("samples.id"), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Double, nullable=False),
    Column("accuracy", Double),
    Column("seconds", Double, nullable=False),
    Column("metrics", _OPTIONAL_JSON),
)

_SECOND = MetaData()
_FIRST.tables["jobs"].to_metadata(_SECOND)  # what plans refer to
Table(
    "plans",
    _SECOND,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("job", String, nullable=False),
    Column("fingerprint", String, nullable=False),
    Column("created", String, nullable=False),
    Column("goal", JSON, nullable=False),
    Column("plan", JSON, nullable=False),
    ForeignKeyConstraint(["job", "fingerprint"], ["jobs.name", "jobs.fingerprint"]),
    Index("plans_of_job", "job", "fingerprint"),
)
METADATA = MetaData()
jobs, samples, evaluations = (table.to_metadata(METADATA) for table in _FIRST.sorted_tables)
samples.append_column(Column("writer", String))
samples.append_column(Column("modelled", Boolean, nullable=False, server_default=false()))
for _name in ("seed", "peak_bytes", "limit_bytes"):
    samples.append_column(Column(_name, BigInteger))
samples.append_column(Column("goal", _OPTIONAL_JSON))
samples.append_column(Column("cause", String))
samples.append_column(Column("room", BigInteger))
samples.append_column(Column("load", _OPTIONAL_JSON))
plans = _SECOND.tables["plans"].to_metadata(METADATA)
plans.append_column(Column("space", _OPTIONAL_JSON))
plans.append_column(Column("cluster", _OPTIONAL_JSON))
results = Table(
    "results",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),
    Column("name", String, nullable=False),
    Column("created", String, nullable=False),
    Column("document", JSON, nullable=False),
)
model_steps = Table(
    "model_steps",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("model", String, nullable=False),
    Column("device", String, nullable=False),
    Column("precision", String, nullable=False),
    Column("workers", BigInteger, nullable=False),
    Column("batch_size", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("spread", Double, nullable=False),
    Column("counted_seconds", Double, nullable=False),
    Column("fingerprint", JSON, nullable=False),
    Column("measured", String, nullable=False),
    Index("steps_on_device", "device", "precision"),
)
applied = Table(
    "cotune_schema",
    MetaData(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("applied", String, nullable=False),
)


def _measure(connection: Connection) -> None:
    _FIRST.create_all(connection)


def _plan(connection: Connection) -> None:
    _SECOND.tables["plans"].create(connection)
    connection.execute(text("ALTER TABLE samples ADD COLUMN writer VARCHAR"))
    # Version 1 did not say who was writing, so nobody could ever close these.
    connection.execute(text("UPDATE samples SET ended = true, failure = 'interrupted' WHERE NOT ended"))


def _mark_modelled(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE samples ADD COLUMN modelled BOOLEAN NOT NULL DEFAULT false"))


def _keep_model_steps(connection: Connection) -> None:
    model_steps.create(connection)


def _keep_results(connection: Connection) -> None:
    for name in ("space", "cluster"):
        connection.execute(text(f"ALTER TABLE plans ADD COLUMN {name} JSON"))
    results.create(connection)


def _remember_seed_and_memory(connection: Connection) -> None:
    for name in ("seed", "peak_bytes", "limit_bytes"):
        connection.execute(text(f"ALTER TABLE samples ADD COLUMN {name} BIGINT"))


def _remember_goal(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE samples ADD COLUMN goal JSON"))


def _name_causes(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE samples ADD COLUMN cause VARCHAR"))
    connection.execute(text("ALTER TABLE samples ADD COLUMN room BIGINT"))
    # Until now the words alone said it.
    connection.execute(
        text(
            "UPDATE samples SET cause = CASE WHEN failure LIKE 'interrupted%' THEN 'interrupted' "
            "WHEN lower(failure) LIKE '%out of memory%' THEN 'memory' ELSE 'job' END WHERE failure IS NOT NULL"
        )
    )


def _remember_load(connection: Connection) -> None:
    connection.execute(text('ALTER TABLE samples ADD COLUMN "load" JSON'))


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _measure,
    _plan,
    _mark_modelled,
    _keep_model_steps,
    _keep_results,
    _remember_seed_and_memory,
    _remember_goal,
    _name_causes,
    _remember_load,
)
VERSION = len(MIGRATIONS)


def version(connection: Connection, label: str) -> int:
    """Return the version of a store, 0 for an empty one; refuse what cannot be read safely."""
    present = set(inspect(connection).get_table_names())
    if applied.name not in present:
        foreign = sorted(present & set(METADATA.tables))
        if foreign:
            raise InvalidFile(f"{label} has a table {foreign[0]!r} that cotune did not make; name another store")
        return 0
    found = connection.scalar(select(func.max(applied.c.version))) or 0
    if found > VERSION:
        raise InvalidFile(
            f"{label} has schema version {found}, this cotune knows up to {VERSION}; "
            "upgrade cotune or name another store (COTUNE_STORE)"
        )
    return int(found)


def migrate(connection: Connection, label: str, to: int | None = None) -> None:
    """Bring a store up to a version, the newest by default, within the caller's transaction."""
    if connection.dialect.name == "postgresql":  # SQLite's writers already wait for one another
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(applied.name))))
    start = version(connection, label)
    applied.create(connection, checkfirst=True)
    for number, step in enumerate(MIGRATIONS[start:to], start + 1):
        step(connection)
        connection.execute(applied.insert().values(version=number, applied=datetime.now(UTC).isoformat()))
