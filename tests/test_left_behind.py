"""A failing test leaves no process, however that detached itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import subprocess
from left_behind import mark, nothing_left_by_a_failure  # noqa: F401

mark()

def test_that_fails():
    sleeper = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("sleeps as", sleeper.pid)
    assert False

def test_that_passes():
    assert subprocess.run(["true"]).returncode == 0
"""


def test_what_a_failing_test_started_is_ended(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from left_behind import pytest_runtest_makereport  # noqa: F401\n")
    (tmp_path / "test_two.py").write_text(TESTS)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-rA", str(tmp_path)]
    said = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert "1 failed, 1 passed" in said, said
    assert "ended what test_two.py::test_that_fails left: sleep 1000" in said, said
    pid = int(said.partition("sleeps as ")[2].split()[0])
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"
