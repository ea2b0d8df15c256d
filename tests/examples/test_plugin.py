"""A package of its own adds a predictor and a policy: installed, listed, used by name, held to the suites."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.worlds import world

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples" / "plugin"
TRACE = "job_id,submit_s,gpus,duration_s\na,0,1,10\nb,1,1,10\nc,2,1,10\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a Python that finds the plug-in, installed by pip into a folder of its own."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(PLUGIN, folder / "source", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(folder / "site"), str(source)], check=True, capture_output=True)
    path = os.pathsep.join([str(folder / "site"), str(ROOT / "src")])
    return {**os.environ, "PYTHONPATH": path, "XDG_DATA_HOME": str(folder)}


def cotune(env: dict[str, str], *words: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "cotune", *words, "--json"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, object] = json.loads(done.stdout)
    return document


def test_its_algorithms_are_listed(installed: dict[str, str]) -> None:
    listed = cotune(installed, "algorithms")["algorithms"]
    assert isinstance(listed, list)
    assert {("predictor", "nearest"), ("policy", "youngest")} <= {(one["kind"], one["name"]) for one in listed}


def test_its_predictor_predicts_and_plans_by_name(installed: dict[str, str], tmp_path: Path) -> None:
    recording = str(world(tmp_path / "world"))
    rows = cotune(installed, "predict", "--recording", recording, "--predictor", "nearest", "--all")["rows"]
    assert isinstance(rows, list)
    assert len(rows) == 20
    goal = ["--target", "accuracy=0.7", "--deadline", "2h", "--predictor", "nearest"]
    assert cotune(installed, "plan", "--recording", recording, *goal)["plan"]


def test_its_policy_is_simulated_by_name(installed: dict[str, str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    told = cotune(installed, "simulate", str(trace), "--cluster", "1", "--policy", "fifo,youngest")
    assert "youngest" in json.dumps(told)


def test_the_suites_run_on_it_from_outside(installed: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(PLUGIN / "tests")]
    done = subprocess.run(command, env=installed, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
