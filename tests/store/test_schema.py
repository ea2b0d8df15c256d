"""An empty database gets the tables that the code uses; one of another schema, or of somebody else, is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from records import CONFIG, JOB, sample
from sqlalchemy import Engine, inspect, select, text

from cotune.errors import InvalidFile
from cotune.store import Store, open_store, schema
from cotune.store.location import WRITE, connect, locate


def _engine(url: str) -> Engine:
    return connect(locate(url, Path())).execution_options(begin=WRITE)


def test_an_empty_store_gets_the_tables_that_the_code_uses(store: Store) -> None:
    found = inspect(store._engine)
    assert set(found.get_table_names()) == {*schema.METADATA.tables, "cotune_schema"}
    for name, table in schema.METADATA.tables.items():
        columns = {column["name"]: column for column in found.get_columns(name)}
        assert set(columns) == {column.name for column in table.columns}
        for column in table.columns:
            assert columns[column.name]["nullable"] == column.nullable, f"{name}.{column.name}"
            assert columns[column.name]["type"]._type_affinity is column.type._type_affinity, f"{name}.{column.name}"


@pytest.mark.parametrize("version", [schema.VERSION - 1, schema.VERSION + 1])
def test_a_store_of_another_schema_is_named_and_not_touched(url: str, version: int) -> None:
    with open_store(url) as store:
        store.save(JOB, sample("growing", ended=False))
    engine = _engine(url)
    with engine.begin() as connection:
        connection.execute(schema.applied.update().values(version=version))
        connection.execute(text("UPDATE samples SET writer = replace(writer, '/', '/0')"))  # a dead writer
    engine.dispose()
    file = Path(url)
    before = file.read_bytes() if file.exists() else b""
    with pytest.raises(InvalidFile, match=f"version {version}, this cotune uses {schema.VERSION}: name another store"):
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
