"""A store of an older version opens as one of this version, with its data; a later one is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from records import CONFIG, JOB, plan, sample
from sqlalchemy import Connection, Engine, Table, inspect, select, text

from cotune.errors import InvalidFile
from cotune.store import Store, open_store, schema
from cotune.store.location import WRITE, connect, locate

RELEASED = [sample("done"), sample("growing", 1, ended=False)]
OLDEST = 8
TABLES = {9: ("queue_events", "queue", "leaders"), 11: ("service_rules",)}  # by the version that they came with
COLUMNS = {9: "load", 10: "length", 12: "copies"}  # of the samples


def _engine(url: str) -> Engine:
    return connect(locate(url, Path())).execution_options(begin=WRITE)


def _older(url: str, version: int = OLDEST) -> None:
    """Write a store, and take from it what came after a version."""
    with open_store(url) as store:
        for one in RELEASED:
            store.save(JOB, one)
    engine = _engine(url)
    with engine.begin() as connection:
        for later in range(version + 1, schema.VERSION + 1):
            for table in TABLES.get(later, ()):
                connection.execute(text(f"DROP TABLE {table}"))
            if later in COLUMNS:
                connection.execute(text(f'ALTER TABLE samples DROP COLUMN "{COLUMNS[later]}"'))
        connection.execute(schema.applied.delete())
        connection.execute(schema.applied.insert().values(version=version, applied="then"))
    engine.dispose()


@pytest.mark.parametrize("version", range(OLDEST, schema.VERSION))
def test_a_store_of_an_older_version_opens_with_its_data(url: str, version: int) -> None:
    _older(url, version)
    with open_store(url) as store:
        assert [one.id for one in store.samples(JOB)] == ["done", "growing"]
        assert store.samples(JOB)[0] == RELEASED[0]
        store.save(JOB, sample("new"))
        store.save_plan(JOB, plan())
        assert store.latest_plan(JOB) == plan()
        with store._engine.connect() as connection:
            assert connection.scalars(select(schema.applied.c.version)).all() == [version, schema.VERSION]
            assert {*schema.METADATA.tables} <= {*inspect(connection).get_table_names()}


def test_a_store_that_no_release_wrote_is_named_and_not_touched(url: str) -> None:
    _older(url)
    engine = _engine(url)
    with engine.begin() as connection:
        connection.execute(schema.applied.update().values(version=3))
    with pytest.raises(InvalidFile, match="version 3, which no release of cotune wrote"):
        open_store(url)
    assert "load" not in {column["name"] for column in inspect(engine).get_columns("samples")}
    engine.dispose()


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
    _older(url)

    def fail(connection: Connection, table: Table) -> None:
        add(connection, table)
        if table is schema.samples:
            raise InvalidFile("the second half fails")

    add = schema._add_columns
    monkeypatch.setattr(schema, "_add_columns", fail)
    with pytest.raises(InvalidFile, match="second half"):
        open_store(url)
    engine = _engine(url)
    assert "load" not in {column["name"] for column in inspect(engine).get_columns("samples")}
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
    with store.writing() as connection:
        connection.execute(schema.samples.update().values(config={"batch_size": CONFIG.batch_size}))
    with pytest.raises(InvalidFile, match=r"holds a row that cannot be read \('stages'\)"):
        store.samples()
