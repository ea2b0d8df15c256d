from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_data(number):
    pytest.skip("needs COTUNE_DATA")

@pytest.mark.skipif(True, reason="needs a GPU")
def test_gpu(): ...

def test_anywhere(): ...
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_last_lines_say_what_was_left_out_and_why(tmp_path: Path, workers: tuple[str, ...]) -> None:
    here = Path(__file__).parent
    shutil.copy(here / "conftest.py", tmp_path)
    (tmp_path / "test_some.py").write_text(_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", *workers, "--rootdir", str(tmp_path), str(tmp_path)]
    beside = {**os.environ, "PYTHONPATH": str(here)}  # what conftest.py imports
    done = subprocess.run(command, cwd=tmp_path, env=beside, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["left out: 3 tests: needs COTUNE_DATA", "left out: 1 test: needs a GPU"]
