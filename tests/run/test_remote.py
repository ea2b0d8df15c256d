"""Launches on other machines: what the records of their workers tell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cotune.run.launch import Launch
from cotune.run.lease import leased
from cotune.run.local.messages import Program, Record
from cotune.run.remote import RemoteLaunch
from cotune.types import Cause, Config, Job


@pytest.mark.parametrize(
    ("alone", "cause"),
    [((True, True), Cause.APART), ((False, False), None), ((True, None), None), ((True,), None), ((None, None), None)],
)
def test_workers_that_never_met_are_noticed_by_their_records(
    tmp_path: Path, alone: tuple[bool | None, ...], cause: Cause | None
) -> None:
    job = Job("made-up", (sys.executable, "train.py"), folder=str(tmp_path))
    launch = Launch("a", job, Config.data_parallel(8, 2), 2, tmp_path / "run", probe_epochs=2.0)
    monitor = RemoteLaunch.of(launch, Program("script", "train.py", ()), 0.0, leased(launch.folder))
    (monitor.folder / "rank-0.jsonl").write_text('{"at": 1.0, "epoch": 1.0, "accuracy": 0.5}\n')
    for rank, told in enumerate(alone):
        Record("done", 0, 0.0, 1.0, alone=told).write(monitor.folder, rank)
    list(monitor.look(2.0))
    list(monitor.hear(2.0, last=True))
    failure = monitor.ended(2.0, None, None).failure
    assert (failure.cause if failure else None) == cause
