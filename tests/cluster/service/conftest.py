"""A store with a queue on every database there is, and a job file to hand in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.store import open_store


@pytest.fixture
def queue(url: str) -> Iterator[Queue]:
    with open_store(url) as store:
        yield Queue(store)


@pytest.fixture
def snapshot(tmp_path: Path) -> JobSnapshot:
    text = "name: digits\nrun: python train.py {batch_size} {epochs}\nexamples: 1440\nepochs: 2\nteam: vision\n"
    return JobSnapshot.written(text, tmp_path, "cotune.yaml", {"deadline": "2h"})[0]
