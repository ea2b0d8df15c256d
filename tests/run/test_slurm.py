"""Real trainings as jobs of a real Slurm of one node."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cotune.errors import EngineError, NotFound, UsageError
from cotune.run.engines.slurm import Slurm
from cotune.run.launch import Event, Launch, Started
from cotune.run.slurm.batch import time_limit
from cotune.types import Cause, Config, Job

from launching import (  # isort: skip
    Make,
    PLAIN,
    Play,
    EngineTests,
    TRAINS,
    player,
    trained_together,
    until_ended,
    workers_of,
)
from test_lease import STUBBORN, killed_while_it_runs, overlap  # isort: skip
from slurm_daemons import daemons, missing  # isort: skip

pytestmark = pytest.mark.xdist_group("slurm")  # one cluster for all
needs_slurm = pytest.mark.skipif(
    bool(missing()), reason=f"needs Slurm ({', '.join(missing())}): apt-get install slurm-wlm munge"
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Slurm]:
    with daemons() as env, pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        made = Slurm(ask_seconds=0.5, term_seconds=1.0)
        yield made
        made.close()


@pytest.fixture
def play_on(engine: Slurm, launch: Make) -> Play:
    """Return a function that runs a launch as a Slurm job to its end."""
    return player(engine, launch)


def in_queue() -> dict[str, str]:
    """Return the jobs that are not over, by number, with their names."""
    command = ["squeue", "-h", "-t", "PENDING,RUNNING,SUSPENDED", "-o", "%i %j"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(line.split(maxsplit=1) for line in shown.splitlines())  # type: ignore[misc]


def leaves_the_queue() -> bool:
    """Say whether all jobs are over within a minute: Slurm tells so a moment after their results are there."""
    patience = time.monotonic() + 60
    while in_queue():
        if time.monotonic() > patience:
            return False
    return True


@needs_slurm
class TestSlurm(EngineTests):
    """What all engines of other machines do."""

    @pytest.fixture(autouse=True)
    def queue_left(self) -> Iterator[None]:
        yield
        assert leaves_the_queue()


@needs_slurm
def test_two_workers_train_as_one_job(play_on: Play) -> None:
    played = play_on(TRAINS, workers=2, command=(sys.executable, "train.py", "{batch_size}"), batch_size=8)
    assert trained_together(played) == ["0 1 0 0 2 8", "0 1 1 1 2 8"]


@needs_slurm
def test_what_a_job_is_told_is_read_by_nobody_else_and_gone_with_it(play_on: Play) -> None:
    command = ("/bin/sh", "-c", 'cd "$COTUNE_CHECKPOINT/.." && stat -c %a . slurm.group.json; echo "$HF_TOKEN"')
    played = play_on(command=command, job=Job("test", env=(("HF_TOKEN", "hunter2"),)))
    assert played.log().split() == ["700", "600", "hunter2"]
    kept = [path for path in played.folder.rglob("*") if path.is_file() and path.name != "rank-0.log"]
    assert not [path.name for path in kept if "hunter2" in path.read_text()]


@needs_slurm
def test_the_limit_and_the_device_are_what_slurm_was_asked_for(play_on: Play) -> None:
    command = ("/bin/sh", "-c", 'scontrol show job "$SLURM_JOB_ID"')
    played = play_on(command=command, config=Config.data_parallel(8, 2, "t4"), seconds_limit=200.0)
    assert played.ended.outcome == "done"
    assert "TimeLimit=00:04:00" in played.log()
    assert re.search(r"gres:gpu:t4:1|gres/gpu:t4=2|gpu:t4:2", played.log())


@needs_slurm
def test_a_job_that_somebody_cancels_is_a_failure_that_says_so(play_on: Play) -> None:
    def cancel(event: Event) -> None:
        if isinstance(event, Started):
            subprocess.run(["scancel", *in_queue()], check=True)

    played = play_on("import signal; signal.pause()", each=cancel, command=PLAIN)
    assert played.ended.outcome == "failed"
    assert played.ended.failure is not None
    assert re.match(r"Slurm job \d+ ended as CANCELLED", played.ended.failure.words)
    assert played.ended.failure.cause is Cause.JOB, "it is not started again against the will of who cancelled it"
    assert workers_of(played.folder) == []


@needs_slurm
def test_close_cancels_our_jobs_and_no_others(engine: Slurm, launch: Make) -> None:
    command = ["sbatch", "--parsable", "--job-name=foreign", "--output=/dev/null", "--wrap=sleep 600"]
    foreign = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    try:
        second = Slurm()
        made = launch("import signal; signal.pause()", name="closed", command=PLAIN)
        second.start(made)
        while not isinstance(second.wait(60), Started):
            pass
        assert len(in_queue()) == 2
        second.close()
        assert in_queue() == {foreign: "foreign"}
        assert workers_of(made.folder) == []
    finally:
        subprocess.run(["scancel", foreign], check=True)


@needs_slurm
def test_what_slurm_does_not_take_is_said_at_once(engine: Slurm, launch: Make) -> None:
    with pytest.raises(EngineError, match=r"Slurm did not take the job: .*invalid partition"):
        Slurm(partition="none").start(launch(""))


def test_a_limit_is_in_whole_minutes() -> None:
    assert time_limit(None) == []
    assert [time_limit(seconds) for seconds in (1, 60, 61)] == [["--time=1"], ["--time=1"], ["--time=2"]]


def test_wrong_settings_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 1 cpu"):
        Slurm(cpus=0)
    with pytest.raises(UsageError, match="options are a list"):
        Slurm(options="--qos=low")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="parameter servers"):
        Slurm().start(Launch("x", Job("x"), Config.data_parallel(1, 1, servers=1), 1, tmp_path))


def test_without_slurm_the_missing_program_is_named(launch: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotFound, match="the slurm engine needs sbatch"):
        Slurm().start(launch(""))


@needs_slurm
def test_a_killed_cotune_leaves_no_job_that_writes_beside_the_next(engine: Slurm, launch: Make) -> None:
    first = launch(STUBBORN, command=PLAIN)
    killed_while_it_runs(Slurm(ask_seconds=0.5, term_seconds=1.0), first)
    assert len(in_queue()) == 1, "Slurm knows nothing of the kill"
    engine.start(replace(first, id="second", resume=True))
    ended = until_ended(engine, "second")[-1]
    assert (ended.outcome, ended.failure) == ("done", None)  # type: ignore[union-attr]
    assert not overlap(first.folder / "checkpoint" / "trail")
    assert leaves_the_queue()


@needs_slurm
def test_a_job_that_waited_until_another_start_had_the_folder_does_not_begin(engine: Slurm, launch: Make) -> None:
    first = launch(STUBBORN, command=PLAIN)
    engine.start(first)
    (first.folder / "lease.json").write_text('{"fence": 9, "pid": 1}')
    ended = until_ended(engine, first.id)[-1]
    assert "another start has taken over" in str(ended.failure)  # type: ignore[union-attr]
    assert leaves_the_queue()
