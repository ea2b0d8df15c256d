"""Which jobs are measured when, and what is told of those whose measuring comes to nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from cotune.cluster.service.device_types import SLOT, alike
from cotune.cluster.service.leadership import Leadership
from cotune.cluster.service.measuring_room import HeldUnits, MeasuringClaim, MeasuringNeed, MeasuringRoom
from cotune.cluster.service.preparation import TRIES, Preparers, Preparing
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import State
from cotune.jobfile import settings
from cotune.store import open_store
from cotune.store.schema import queue as jobs


@contextmanager
def preparing(folder: Path, store: str = "store.db") -> Iterator[Preparing]:
    """Lead the queue of a store in a folder; those who prepare are told of the same or another store."""
    with open_store(str(folder / "store.db")) as opened:
        leadership = Leadership(opened, {"pid": 1})
        assert leadership.take()
        preparers = Preparers(str(folder / store), leadership.term)
        yield Preparing(Queue(opened, leadership.term), preparers)
        preparers.close()
        leadership.release()


def submitted(queue: Queue, folder: Path, asked: Mapping[str, Any]) -> str:
    text = (
        "name: digits\nrun: python train.py {batch_size} {epochs}\nexamples: 1440\nepochs: 2\n"
        "search: {workers: [1, 2], batch_size: [16]}\n"
    )
    return queue.submit(JobSnapshot.written(text, folder, "cotune.yaml", asked)[0])


def gone_on(one: Preparing, room: MeasuringRoom | None) -> bool:
    return one.go_on(one.queue.listed(states=[State.QUEUED]), alike(2), room)


def until_unmeasured(one: Preparing, id: str) -> None:
    """Go on until a job is known to need measuring."""
    while one.queue.get(id).reason != "waits to be measured":
        gone_on(one, None)


def room(free: int, *held: HeldUnits, crowded: bool = False) -> MeasuringRoom:
    return MeasuringRoom({SLOT: free + sum(one.units for one in held)}, {SLOT: free}, held, crowded)


@pytest.mark.parametrize(
    ("found", "units"),
    [
        (room(4), 4),
        (room(4, crowded=True), 2),
        (room(1, HeldUnits(SLOT, 3, 0, can_go_on=True)), 2),
        (room(0, HeldUnits(SLOT, 4, 0, can_go_on=True)), 2),
        (room(0, HeldUnits(SLOT, 4, -1, can_go_on=False)), None),
        (room(0, HeldUnits(SLOT, 4, 1, can_go_on=True)), None),
        (room(1, HeldUnits(SLOT, 3, 1, can_go_on=True)), 1),
        (room(0, HeldUnits(SLOT, 2, 0, can_go_on=True), HeldUnits(SLOT, 2, 0, can_go_on=False)), None),
        (room(0, HeldUnits(SLOT, 2, 0, can_go_on=True), HeldUnits(SLOT, 2, 1, can_go_on=False)), 2),
    ],
)
def test_measuring_takes_from_no_higher_priority_and_from_nobody_without_a_checkpoint(
    found: MeasuringRoom, units: int | None
) -> None:
    assert found.units(MeasuringNeed((SLOT,), 1, 8), 0) == (None if units is None else {SLOT: units})


def test_a_job_that_cannot_be_measured_says_so_and_what_comes_free_is_kept_for_it(tmp_path: Path) -> None:
    with preparing(tmp_path) as one:
        id = submitted(one.queue, tmp_path, {})
        until_unmeasured(one, id)
        taken = room(0, HeldUnits(SLOT, 2, 100, can_go_on=True))
        assert gone_on(one, taken)
        assert not gone_on(one, taken), "nothing is new"
        assert one.claim == MeasuringClaim(id, 0, {SLOT: 1})
        assert one.queue.get(id).reason.startswith("waits to be measured: 1 worker must come free")
        assert gone_on(one, room(2))
        assert (one.claim, dict(one.preparers.reserved)) == (None, {SLOT: 2})


def test_a_job_file_is_parsed_once_when_it_is_submitted_and_once_by_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def loads(text: str, *words: Any) -> settings.Settings:
        parsed.append(text)
        return whole(text, *words)

    whole = settings.loads
    monkeypatch.setattr(settings, "loads", loads)
    with preparing(tmp_path) as one:
        id = submitted(one.queue, tmp_path, {})
        assert len(parsed) == 1
        until_unmeasured(one, id)
        gone_on(one, room(2))
        assert one.queue.get(id).reason == "to be measured"
    assert len(parsed) == 2


def test_a_job_whose_deadline_has_passed_is_declined_before_any_worker_is_set_aside(tmp_path: Path) -> None:
    with preparing(tmp_path) as one:
        id = submitted(one.queue, tmp_path, {"deadline": "1h"})
        until_unmeasured(one, id)
        one.queue.store.transact(lambda connection: connection.execute(update(jobs).values(submitted=0.0)))
        assert not gone_on(one, room(2))
        assert one.queue.get(id).state is State.DECLINED
        assert one.queue.get(id).reason.startswith("its deadline passed before it could be planned")


def test_a_job_whose_measuring_comes_to_nothing_says_with_which_last_line(
    tmp_path: Path, snapshot: JobSnapshot
) -> None:
    with preparing(tmp_path, "other.db") as one:
        id = one.queue.submit(snapshot)
        while not one.queue.get(id).is_final:
            gone_on(one, room(2))
        job = one.queue.get(id)
    assert job.state is State.FAILED
    assert job.reason.startswith(f"measuring it ended {TRIES} times (status 1): cotune.errors.NotFound: no job '{id}'")
