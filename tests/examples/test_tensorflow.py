"""The TensorFlow example, really run under cotune with both of its strategies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.jobs import Done, environment
from interop import environments

EXAMPLE = Path(__file__).parents[2] / "examples" / "tensorflow"


def trained(folder: Path, strategy: str, workers: int) -> Done:
    """Run the example in a copy of its folder; its Python is TensorFlow's, cotune's is ours."""
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    (folder / ".cotune").mkdir()
    found = f"{environments.python('tf').parent}{os.pathsep}{os.environ['PATH']}"
    source = str(Path(__file__).parents[2] / "src")
    env = {**environment(folder), "PATH": found, "PYTHONPATH": source}
    flags = ["-w", str(workers), "-b", "16", "--axis", f"strategy={strategy}", "--epochs", "3", "--json"]
    command = [sys.executable, "-m", "cotune", "run", "--target", "accuracy=0.999", *flags]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=230, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@environments.needs("tf")
@pytest.mark.parametrize(("strategy", "workers"), [("mirrored", 2), ("parameter_server", 3)])
def test_tensorflow_trains_with_its_own_loop(strategy: str, workers: int, tmp_path: Path) -> None:
    done = trained(tmp_path, strategy, workers)
    assert done.code == 6, done.err  # three epochs are too few for 0.999
    run = done.json["run"]
    assert [point["epoch"] for point in run["curve"]] == [1, 2, 3]
    assert run["curve"][-1]["accuracy"] > 0.4
    assert run["failure"] is None
    assert run["terms"]["evaluation"] > 0
