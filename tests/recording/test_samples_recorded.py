"""What was measured, as the rows of a recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cotune.recording import read
from cotune.recording.samples import recorded_tables
from cotune.types import Cause, Config, Evaluation, Failure, Job, Sample

EXAMPLES = 6000
JOB = Job("made-up", examples=EXAMPLES)
RECORDINGS = sorted(path.parent for path in (Path(__file__).parents[2] / "recordings").glob("*/epoch_time.csv"))


def start(batch_size: int, epochs: float, *, failure: Failure | None = None, ended: int = 0) -> Sample:
    curve = tuple(Evaluation(float(epoch), 0.5 + epoch / 100, 1.0) for epoch in range(1, ended + 1))
    return Sample(Config.data_parallel(batch_size, 2), epochs, 4.123456789, curve=curve, failure=failure)


def test_an_interrupted_start_of_fewer_than_thirty_steps_tells_no_time() -> None:
    few = start(50, 29 * 100 / EXAMPLES, failure=Failure.interrupted("by the user"))
    enough = start(100, 30 * 200 / EXAMPLES, failure=Failure.interrupted("by the user"), ended=1)
    failed = start(20, 5.0, failure=Failure("out of memory", Cause.MEMORY), ended=5)
    times, accuracy = recorded_tables(JOB, [few, enough, failed])
    assert [(row.batch_size, row.epoch_seconds) for row in times] == [(100, 4.12346)]
    assert [(row.global_batch, row.epoch) for row in accuracy] == [(200, 1.0)]


def test_repeats_and_seeds_are_numbered_only_where_there_are_several() -> None:
    once, _ = recorded_tables(JOB, [start(40, 1.0), start(10, 1.0)])
    assert [(row.batch_size, row.repeat) for row in once] == [(10, ""), (40, "")]
    times, accuracy = recorded_tables(JOB, [start(40, 1.0, ended=1), start(10, 1.0), start(40, 2.0, ended=2)])
    assert [(row.batch_size, row.repeat) for row in times] == [(10, "1"), (40, "1"), (40, "2")]
    assert [(row.seed, row.epoch) for row in accuracy] == [("1", 1.0), ("2", 1.0), ("2", 2.0)]


def test_curves_of_servers_that_do_not_wait_tell_their_workers() -> None:
    stale = Config.data_parallel(8, 4, servers=1, axes=(("asynchronous", True),))
    _, accuracy = recorded_tables(JOB, [start(16, 1.0, ended=1), replace(start(8, 1.0, ended=1), config=stale)])
    assert [(row.global_batch, row.workers) for row in accuracy] == [(32, None), (32, 4)]


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda folder: folder.name)
def test_every_recording_of_the_project_can_be_planned_on(folder: Path) -> None:
    recording = read(folder)
    assert recording.name == folder.name
    assert len(recording.space(with_accuracy=True)) >= 7
    assert recording.last_epoch >= 7
