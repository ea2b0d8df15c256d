"""One start at a time in a run's folder: whose cotune was killed cannot write beside the one that goes on from it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cotune.errors import EngineError
from cotune.run.lease import Lease, Watch, current, leased

from launching import PLAIN, Make, Play, until_ended  # isort: skip

# Ignores SIGTERM, and writes its number into the checkpoint's folder for as long as it lives.
STUBBORN = """
    import os, pathlib, signal, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    fence, trail = os.environ["COTUNE_FENCE"], pathlib.Path(os.environ["COTUNE_CHECKPOINT"]) / "trail"
    import cotune
    cotune.report(epoch=0)
    for step in range(10 if os.environ.get("COTUNE_RESUME") else 100_000):
        with trail.open("a") as file:
            file.write(fence + "\\n")
        time.sleep(0.02)
    cotune.report(epoch=1, accuracy=0.5)
"""
_DRIVER = """
import pickle, sys
engine, launch = pickle.load(sys.stdin.buffer)
engine.start(launch)
while True:
    event = engine.wait(1.0)
    if event is not None:
        print(type(event).__name__, flush=True)
"""


def test_every_start_has_a_higher_number_and_nobody_else_has_the_folder_meanwhile(tmp_path: Path) -> None:
    first = leased(tmp_path / "run")
    with pytest.raises(EngineError, match=f"in use by another cotune .process {os.getpid()}."):
        leased(tmp_path / "run")
    first.release()
    second = leased(tmp_path / "run")
    assert (first.fence, second.fence, current(tmp_path / "run")) == (1, 2, 2)
    assert first.is_lost
    assert not second.is_lost
    assert second.env() == {"COTUNE_FENCE": "2", "COTUNE_LEASE": str(tmp_path / "run")}


def test_a_later_start_waits_for_what_runs_the_workers_of_an_earlier_one(tmp_path: Path) -> None:
    first = Lease.take(tmp_path)
    watch = Watch(first.env(), "leader")
    first.release()
    second = Lease.take(tmp_path)
    with pytest.raises(EngineError, match="an earlier start still runs in"):
        second.settle(0.1)
    assert watch.is_fenced_off()
    assert watch.lock is not None
    os.close(watch.lock)
    second.settle(0.1)


def test_a_number_of_a_store_goes_before_a_driver_that_hangs(tmp_path: Path) -> None:
    hanging = Lease.take(tmp_path, 4)
    watch = Watch(hanging.env(), "leader")
    later = Lease.take(tmp_path, 5)
    assert hanging.is_lost
    assert watch.is_fenced_off()
    assert watch.lock is not None
    os.close(watch.lock)
    later.settle(0.1)
    Watch(later.env(), "leader")
    (tmp_path / "lease.json").write_text('{"fence": 4, "pid": 1}')  # as a driver would that was stopped before it wrote
    assert not later.is_lost
    with pytest.raises(EngineError, match="a later start"):
        hanging.settle(0.1)
    with pytest.raises(EngineError, match="a later start"):
        Lease.take(tmp_path, 5)


def test_a_lease_that_cannot_be_read_is_no_licence_to_write(tmp_path: Path) -> None:
    (tmp_path / "lease.json").write_text("torn {")
    with pytest.raises(EngineError, match="is not known"):
        Lease.take(tmp_path)


def test_a_start_with_a_lower_number_than_the_leases_ends_itself(play: Play, tmp_path: Path) -> None:
    def overtaken(_: object) -> None:
        (tmp_path / "runs" / "launch" / "lease.json").write_text(json.dumps({"fence": 9, "pid": 1}))

    played = play(STUBBORN, command=PLAIN, each=overtaken)
    assert played.ended.outcome == "failed"
    assert "another start has taken over" in str(played.ended.failure)


def overlap(trail: Path) -> bool:
    """Say whether an earlier start wrote after a later one had begun."""
    fences = [int(line) for line in trail.read_text().split()]
    assert set(fences) == {1, 2}
    return fences != sorted(fences)


def killed_while_it_runs(engine: object, launch: object) -> None:
    """Start a launch in a process of its own, and kill that when its workers are at work."""
    import pickle

    driver = subprocess.Popen([sys.executable, "-c", _DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert driver.stdin is not None
    assert driver.stdout is not None
    driver.stdin.write(pickle.dumps((engine, launch)))
    driver.stdin.close()
    for line in driver.stdout:
        if line == b"Reported\n":
            break
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_cotune_leaves_nobody_who_writes_beside_the_next(launch: Make, local: object, workers: int) -> None:
    from dataclasses import replace

    from cotune.run.engines.local import Local

    first = launch(STUBBORN, command=PLAIN, workers=workers)
    killed_while_it_runs(Local(term_seconds=1.0), first)
    local.start(replace(first, id="second", resume=True))  # type: ignore[attr-defined]
    until_ended(local, "second")  # type: ignore[arg-type]
    assert not overlap(first.folder / "checkpoint" / "trail")
