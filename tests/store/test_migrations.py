"""A store of any earlier version opens as one of this version, with its data; a later one is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from records import CONFIG, JOB, curve, plan, sample
from sqlalchemy import Engine, inspect, select, text

from cotune.errors import InvalidFile
from cotune.store import Store, open_store, rows, schema
from cotune.store.location import WRITE, connect, locate
from cotune.types import Cause, Failure, Sample

OLD = [sample("done"), sample("growing", 1, ended=False)]


def _engine(url: str) -> Engine:
    return connect(locate(url, Path())).execution_options(begin=WRITE)


def _first_version(url: str, samples: Sequence[Sample] = OLD) -> None:
    """Write a store as version 1 did, with what its tables were then."""
    tables = schema._FIRST.tables
    engine = _engine(url)
    owner = {"job": JOB.name, "fingerprint": JOB.fingerprint}
    with engine.begin() as connection:
        schema.migrate(connection, url, to=1)
        connection.execute(
            tables["jobs"].insert(),
            {"name": JOB.name, "fingerprint": JOB.fingerprint, "definition": rows.of_record(JOB), "first_seen": "then"},
        )
        known = {column.name for column in tables["samples"].columns}
        then = [{name: value for name, value in rows.of_sample(old).items() if name in known} for old in samples]
        connection.execute(tables["samples"].insert(), [{**row, **owner} for row in then])
        points = [rows.of_evaluation(point, old.id, at) for old in samples for at, point in enumerate(old.curve)]
        connection.execute(tables["evaluations"].insert(), points)
    engine.dispose()


def test_a_store_of_version_1_opens_with_its_data(url: str) -> None:
    _first_version(url)
    with open_store(url) as store:
        done, growing = store.samples(JOB)
        assert done == OLD[0]
        assert growing.ended
        assert growing.failure is not None
        assert not growing.failed
        assert growing.curve == curve(1)
        assert store.jobs()[0].definition == JOB
        store.save(JOB, sample("new"))
        store.save_plan(JOB, plan())
        assert store.latest_plan(JOB) == plan()
        with store._engine.connect() as connection:
            assert connection.scalars(select(schema.applied.c.version)).all() == [*range(1, schema.VERSION + 1)]


def test_failures_of_version_1_have_the_cause_that_their_words_told(url: str) -> None:
    failures = [
        Failure("CUDA out of memory on rank 1", Cause.MEMORY),
        Failure.interrupted("by the user"),
        Failure("rank 0 crashed: ValueError"),
    ]
    _first_version(url, [sample(f"{place}", failure=failure) for place, failure in enumerate(failures)])
    with open_store(url) as store:
        assert [kept.failure for kept in store.samples(JOB)] == failures


def test_migrations_end_at_the_tables_that_the_code_uses(store: Store) -> None:
    found = inspect(store._engine)
    assert set(found.get_table_names()) == {*schema.METADATA.tables, "cotune_schema"}
    for name, table in schema.METADATA.tables.items():
        columns = {column["name"]: column for column in found.get_columns(name)}
        assert set(columns) == {column.name for column in table.columns}
        for column in table.columns:
            assert columns[column.name]["nullable"] == column.nullable, f"{name}.{column.name}"
            assert columns[column.name]["type"]._type_affinity is column.type._type_affinity, f"{name}.{column.name}"


def test_a_migration_that_fails_leaves_the_old_store_as_it_was(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _first_version(url)

    def fail(connection: object) -> None:
        raise InvalidFile("the second half fails")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, fail))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    with pytest.raises(InvalidFile, match="second half"):
        open_store(url)
    engine = _engine(url)
    assert set(inspect(engine).get_table_names()) == {"jobs", "samples", "evaluations", "cotune_schema"}
    assert "writer" not in {column["name"] for column in inspect(engine).get_columns("samples")}
    engine.dispose()


def test_a_store_of_a_newer_version_is_named_and_not_touched(url: str) -> None:
    with open_store(url) as store:
        store.save(JOB, sample("growing", ended=False))
    engine = _engine(url)
    with engine.begin() as connection:
        connection.execute(schema.applied.insert().values(version=99, applied="later"))
        connection.execute(text("UPDATE samples SET writer = replace(writer, '/', '/0')"))  # a dead writer
    engine.dispose()
    file = Path(url)
    before = file.read_bytes() if file.exists() else b""
    with pytest.raises(InvalidFile, match=f"version 99, this cotune knows up to {schema.VERSION}"):
        open_store(url)
    assert (file.read_bytes() if file.exists() else b"") == before
    engine = _engine(url)
    with engine.begin() as connection:
        assert connection.scalar(select(schema.samples.c.ended)) is False
    engine.dispose()


def test_tables_of_someone_else_are_not_touched(url: str) -> None:
    engine = _engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE jobs (title VARCHAR)"))
    with pytest.raises(InvalidFile, match="table 'jobs' that cotune did not make"):
        open_store(url)
    assert inspect(engine).get_table_names() == ["jobs"]
    engine.dispose()


def test_a_row_that_makes_no_sense_is_named_in_one_line(store: Store) -> None:
    store.save(JOB, sample("a"))
    with store._writing() as connection:
        connection.execute(schema.samples.update().values(config={"batch_size": CONFIG.batch_size}))
    with pytest.raises(InvalidFile, match=r"holds a row that cannot be read \('stages'\)"):
        store.samples()
