"""What ended a start decides whether the run goes on, and with how many workers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cotune.jobfile.file import JobFile
from cotune.run.attempt import StopRule
from cotune.run.launch import Launch
from cotune.run.supervise import Move, restart_seconds, supervise
from cotune.types import STOP_GRACE, Cause, Config, Failure, Job, Sample, Terms
from run.clockwork import Clockwork

EPOCHS = 3


def starts(folder: Path, failure: Failure) -> list[Launch]:
    """Return the starts of a run of 4 workers whose first start ends with a failure."""
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "model").write_text("trained")
    config = Config.data_parallel(8, 4)
    engine = Clockwork(fails=lambda launch: None if launch.resume else failure)
    launch = Launch("first", Job("job"), config, EPOCHS, folder)
    list(supervise(engine, launch, StopRule(epochs=EPOCHS), Sample(config, id="first")))
    return [one for one, before in zip(engine.launches, [None, *engine.launches], strict=False) if one != before]


@pytest.mark.parametrize(("cause", "number"), [(cause, 2 if Failure("", cause).from_outside else 1) for cause in Cause])
def test_only_what_comes_from_outside_is_outlived(tmp_path: Path, cause: Cause, number: int) -> None:
    assert len(starts(tmp_path, Failure("it broke", cause))) == number


@pytest.mark.parametrize(("room", "workers"), [(None, 4), (3, 2), (2, 2), (1, 1)])
def test_a_run_goes_on_with_the_workers_that_there_is_room_for(tmp_path: Path, room: int | None, workers: int) -> None:
    last = starts(tmp_path, Failure("no room", Cause.OUTSIDE, room))[-1]
    assert (last.config.workers, last.config.global_batch) == (workers, 32)


@pytest.mark.parametrize(("pattern", "seconds"), [(None, 30.0), ("epoch", 2.5)])
def test_a_run_that_is_read_need_not_be_waited_for_when_it_moves(
    tmp_path: Path, pattern: str | None, seconds: float
) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "model").write_text("trained")
    config, other = Config.data_parallel(8, 4), Config.data_parallel(16, 2)
    engine, launch = Clockwork(), Launch("first", Job("job", pattern=pattern), config, EPOCHS, tmp_path)
    change = lambda sample: Move(other, "asked") if sample.config == config and sample.curve else None  # noqa: E731
    list(supervise(engine, launch, StopRule(epochs=EPOCHS), Sample(config, id="first"), change=change))
    assert engine.stops["first"] == pytest.approx(seconds)


@pytest.mark.parametrize(("kept", "number"), [(True, 2), (False, 1)])
def test_a_run_moves_only_from_a_checkpoint_and_else_goes_on_as_it_is(tmp_path: Path, kept: bool, number: int) -> None:
    if kept:
        (tmp_path / "checkpoint").mkdir()
        (tmp_path / "checkpoint" / "model").write_text("trained")
    config, other = Config.data_parallel(8, 4), Config.data_parallel(16, 2)
    engine, job = Clockwork(), Job("job", command=("python", "train.py"), pattern="epoch")
    launch = Launch("first", job, config, EPOCHS, tmp_path)
    change = lambda sample: Move(other, "asked") if sample.config == config and sample.curve else None  # noqa: E731
    moments = list(supervise(engine, launch, StopRule(epochs=EPOCHS), Sample(config, id="first"), change=change))
    assert len(engine.launches) == number
    assert moments[-1].sample.epochs == EPOCHS


def test_a_run_ends_where_there_is_no_room_for_any_worker(tmp_path: Path) -> None:
    assert len(starts(tmp_path, Failure("no room", Cause.OUTSIDE, 0))) == 1


def test_a_run_that_is_stopped_to_move_and_leaves_no_checkpoint_has_failed(tmp_path: Path) -> None:
    config, other = Config.data_parallel(8, 4), Config.data_parallel(16, 2)
    launch = Launch("first", Job("job", command=("python", "train.py", "{checkpoint}")), config, EPOCHS, tmp_path)
    change = lambda sample: Move(other, "asked") if sample.curve else None  # noqa: E731
    *_, last = supervise(Clockwork(), launch, StopRule(epochs=EPOCHS), Sample(config, id="first"), change=change)
    assert "left no checkpoint" in str(last.sample.failure)


def test_a_run_has_as_long_to_end_as_the_job_file_says_by_default(tmp_path: Path) -> None:
    launch = Launch("first", Job("job"), Config.data_parallel(8, 4), EPOCHS, tmp_path)
    assert launch.stop_grace == STOP_GRACE == JobFile().stop_grace


def test_another_start_of_a_run_finds_the_engine_of_this_machine_up_and_waits_for_others_again() -> None:
    here = Sample(Config.data_parallel(8, 1), terms=Terms(engine=2.5, startup=1.5), purpose="run")
    assert restart_seconds(here) == 1.5
    assert restart_seconds(replace(here, engine="slurm")) == 4.0
    assert restart_seconds(replace(here, terms=Terms())) == 0.0
