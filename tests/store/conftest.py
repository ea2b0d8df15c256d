"""A store on every database there is: SQLite, and a PostgreSQL server of the tests' own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from cotune.store import Store, open_store

from postgres_server import Server  # isort: skip

_NUMBERS = itertools.count()


@pytest.fixture
def postgres(server: Server) -> Callable[[], str]:
    """Return what makes a new, empty database and names its URL."""

    def create() -> str:
        name = f"store{next(_NUMBERS)}"
        engine = create_engine(server.template.format(database="postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return server.template.format(database=name)

    return create


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a new store can be."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return str(request.getfixturevalue("postgres")())


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        yield opened
