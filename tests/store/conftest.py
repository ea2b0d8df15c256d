"""A store on every database there is: SQLite, and a PostgreSQL server of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cotune.store import Store, open_store


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        yield opened
