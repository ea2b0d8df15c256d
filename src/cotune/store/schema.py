"""The tables of a store. An empty database gets them in one transaction; one of another schema is refused.

Whoever changes a table raises VERSION. There is no way from one schema to the next until the first release.
"""

from __future__ import annotations

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
)

from cotune.errors import InvalidFile

_OPTIONAL_JSON = JSON(none_as_null=True)
METADATA = MetaData()

jobs = Table(
    "jobs",
    METADATA,
    Column("name", String, primary_key=True),
    Column("fingerprint", String, primary_key=True),
    Column("definition", JSON, nullable=False),
    Column("first_seen", String, nullable=False),
)
samples = Table(
    "samples",
    METADATA,
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
    Column("writer", String),
    Column("modelled", Boolean, nullable=False, server_default=false()),
    Column("seed", BigInteger),
    Column("peak_bytes", BigInteger),
    Column("limit_bytes", BigInteger),
    Column("goal", _OPTIONAL_JSON),
    Column("cause", String),
    Column("room", BigInteger),
    Column("load", _OPTIONAL_JSON),
    Column("length", BigInteger),
    Column("copies", Boolean, nullable=False, server_default=false()),
    ForeignKeyConstraint(["job", "fingerprint"], ["jobs.name", "jobs.fingerprint"]),
    Index("samples_of_job", "job", "fingerprint"),
)
evaluations = Table(
    "evaluations",
    METADATA,
    Column("sample", String, ForeignKey("samples.id"), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Double, nullable=False),
    Column("accuracy", Double),
    Column("seconds", Double, nullable=False),
    Column("metrics", _OPTIONAL_JSON),
)
plans = Table(
    "plans",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("job", String, nullable=False),
    Column("fingerprint", String, nullable=False),
    Column("created", String, nullable=False),
    Column("goal", JSON, nullable=False),
    Column("plan", JSON, nullable=False),
    Column("space", _OPTIONAL_JSON),
    Column("cluster", _OPTIONAL_JSON),
    ForeignKeyConstraint(["job", "fingerprint"], ["jobs.name", "jobs.fingerprint"]),
    Index("plans_of_job", "job", "fingerprint"),
)
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
queue = Table(
    "queue",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False),
    Column("team", String, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("state", String, nullable=False),
    Column("fence", BigInteger, nullable=False),  # of its latest start
    Column("held", Boolean, nullable=False),
    Column("cancelling", Boolean, nullable=False),
    Column("restarts", Integer, nullable=False),
    Column("reason", String, nullable=False),
    Column("workers", Integer, nullable=False),
    Column("file", JSON, nullable=False),
    Column("folder", String),  # where the files of its starts are, once there was one
    Column("target", _OPTIONAL_JSON),
    Column("deadline", Double),  # seconds after `submitted`
    Column("submitted", Double, nullable=False),
    Column("changed", Double, nullable=False),
    Column("eta", _OPTIONAL_JSON),
    Column("belief", _OPTIONAL_JSON),
    Column("result", _OPTIONAL_JSON),
    Index("queue_by_state", "state"),
)
queue_events = Table(
    "queue_events",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("job", String, ForeignKey("queue.id"), nullable=False),
    Column("at", Double, nullable=False),
    Column("state", String, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("words", String, nullable=False),
    Index("events_of_job", "job"),
)
leaders = Table(
    "leaders",
    METADATA,
    Column("name", String, primary_key=True),
    Column("holder", String, nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("expires", Double, nullable=False),
    Column("about", JSON, nullable=False),
)
service_rules = Table(
    "service_rules",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("at", Double, nullable=False),
    Column("by", String, nullable=False),
    Column("rules", JSON, nullable=False),
)
applied = Table(
    "cotune_schema",
    MetaData(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("applied", String, nullable=False),
)


VERSION = 12


def is_ready(connection: Connection, label: str) -> bool:
    """Return whether a store has its tables; refuse a database of another schema, or of somebody else."""
    present = set(inspect(connection).get_table_names())
    if applied.name not in present:
        foreign = sorted(present & set(METADATA.tables))
        if foreign:
            raise InvalidFile(f"{label} has a table {foreign[0]!r} that cotune did not make; name another store")
        return False
    found = connection.scalar(select(func.max(applied.c.version))) or 0
    if found and found != VERSION:
        raise InvalidFile(
            f"{label} has schema version {found}, this cotune uses {VERSION}: name another store (COTUNE_STORE), "
            "or open it with the cotune that wrote it"
        )
    return bool(found)


def create(connection: Connection, label: str) -> None:
    """Give an empty store its tables within the caller's transaction."""
    if connection.dialect.name == "postgresql":  # SQLite's writers already wait for one another
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(applied.name))))
    if is_ready(connection, label):  # somebody else made them meanwhile
        return
    applied.create(connection, checkfirst=True)
    METADATA.create_all(connection)
    connection.execute(applied.insert().values(version=VERSION, applied=datetime.now(UTC).isoformat()))
