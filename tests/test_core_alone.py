"""The core without its rooms: a copy of the package from which the four folders are removed still passes its tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cotune

ROOT = Path(__file__).parents[1]
ROOMS = ("cluster", "placement", "modelling", "lab")
IN_A_ROOM = re.compile(rf"cotune\.({'|'.join(ROOMS)})\b|^from ({'|'.join(ROOMS)})\b", re.MULTILINE)
FOLDERS = ("jobfile", "recording", "predict", "plan", "probe", "worker", "devices")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a Python that sees the core and nothing of the rooms."""
    folder = tmp_path_factory.mktemp("core")
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(cotune.__file__).parent, folder / "src" / "cotune", ignore=left_out)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=left_out)
    for part in ("docs", "recordings"):
        shutil.copytree(ROOT / part, folder / part, ignore=left_out)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for room in ROOMS:
        shutil.rmtree(folder / "src" / "cotune" / room)
    path = os.pathsep.join([str(folder / "src"), str(folder / "tests")])
    data = str(folder / "data")
    return {**os.environ, "PYTHONPATH": path, "XDG_DATA_HOME": data, "HERE": str(folder), "HYPOTHESIS": "few"}


def run(alone: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", *words]
    return subprocess.run(command, env=alone, cwd=alone["HERE"], capture_output=True, text=True, check=False)


def test_verbs_of_the_rooms_are_gone_and_those_of_the_core_are_listed(alone: dict[str, str]) -> None:
    listed = run(alone, "cotune", "--help").stdout
    assert "profile" in listed
    assert "simulate" not in listed


def test_it_plans_and_runs_a_recording(alone: dict[str, str]) -> None:
    goal = ["--recording", str(ROOT / "recordings" / "lenet5-mnist-slices"), "--target", "accuracy=0.95"]
    done = run(alone, "cotune", "plan", *goal, "--deadline", "10m", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plan"]["config"]["workers"] >= 1


@pytest.mark.timeout(1200)  # some thousand tests in one process, beside others
def test_its_own_tests_pass(alone: dict[str, str]) -> None:
    files = [
        str(file)
        for folder in FOLDERS
        for file in sorted((Path(alone["HERE"]) / "tests" / folder).glob("test_*.py"))
        if not IN_A_ROOM.search(file.read_text())
    ]
    assert len(files) > 20
    done = run(alone, "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *files)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
