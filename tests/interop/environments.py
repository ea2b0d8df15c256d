"""Separate environments for tools whose packages would quarrel with ours.

COTUNE_ENVIRONMENTS names a folder with one environment for each (`logs`, `sky`, `tf`, `titan`), as
made by benchmarks/tool_environments.sh. Tests of the tools themselves run there.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

FOLDER = os.environ.get("COTUNE_ENVIRONMENTS")


def needs(name: str) -> pytest.MarkDecorator:
    """Return the mark of a test that runs in that environment."""
    there = FOLDER is not None and python(name).is_file()
    return pytest.mark.skipif(not there, reason=f"needs COTUNE_ENVIRONMENTS (a folder with the environment {name!r})")


def python(name: str) -> Path:
    """Return the interpreter of an environment."""
    return Path(FOLDER or "") / name / "bin" / "python"


def run(name: str, code: str, *words: str, folder: Path, timeout: float = 100) -> str:
    """Run some Python in an environment, with our sources on its path; return what it printed."""
    source = Path(__file__).parents[2] / "src"
    found = f"{python(name).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": found, "PYTHONPATH": str(source)}
    command = [str(python(name)), "-c", code, *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
