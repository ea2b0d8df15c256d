"""A store with a queue on every database there is, and a job file to hand in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.store import open_store

_NUMBERS = itertools.count()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new store can be."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    template = request.getfixturevalue("server").template
    name = f"queue{next(_NUMBERS)}"
    engine = create_engine(template.format(database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return str(template.format(database=name))


@pytest.fixture
def queue(url: str) -> Iterator[Queue]:
    with open_store(url) as store:
        yield Queue(store)


@pytest.fixture
def snapshot(tmp_path: Path) -> JobSnapshot:
    text = "name: digits\nrun: python train.py {batch_size} {epochs}\nexamples: 1440\nepochs: 2\nteam: vision\n"
    return JobSnapshot.written(text, tmp_path, "cotune.yaml", {"deadline": "2h"})[0]
