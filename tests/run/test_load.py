"""What other processes do while a start runs."""

from __future__ import annotations

import os
from pathlib import Path

from cotune.run.load import LoadWatch
from cotune.types import Load


def process(proc: Path, pid: int, state: str, parent: int) -> None:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (a (strange) name) {state} {parent} 0 0")


def test_busy_processes_of_others_are_counted_and_own_ones_are_not(tmp_path: Path) -> None:
    process(tmp_path, 10, "S", 1)
    process(tmp_path, 11, "R", 10)
    process(tmp_path, 12, "R", 11)  # a worker
    process(tmp_path, 20, "R", 1)
    process(tmp_path, 21, "S", 1)
    (tmp_path / "meminfo").write_text("")
    watch = LoadWatch(tmp_path, root=11)
    assert watch.load is None
    watch.look(0.0)
    assert watch.load == Load(1.0, os.cpu_count() or 1)
    process(tmp_path, 22, "R", 10)
    watch.look(0.5)  # too early to look again
    assert watch.load.others == 1.0
    watch.look(2.0)
    assert watch.load.others == 1.5


def test_a_machine_that_tells_nothing_has_no_load(tmp_path: Path) -> None:
    watch = LoadWatch(tmp_path / "none")
    watch.look(0.0)
    assert watch.load is None
