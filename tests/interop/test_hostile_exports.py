"""What names, variables and values of a job could do in the files that are written from them: nothing."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cotune.errors import UsageError
from cotune.interop.export import LaunchOrder, names, order, write
from cotune.run.launch import Launch
from cotune.run.slurm.batch import batch_script
from cotune.types import Cluster, Config, Device, Job

ACT = ": > P"  # a shell's own way to make a file, which needs no PATH
HOSTILE = [f"x\n{ACT} #", f"x\r\n{ACT}\n", f"$({ACT})", f"`{ACT}`", f"'; {ACT}; '", f'"; {ACT}; "', f"; {ACT}\n"]


def run(script: str, folder: Path) -> None:
    subprocess.run(
        ["/bin/sh", "-c", script], cwd=folder, env={"HEAD": "h", "PATH": ""}, capture_output=True, check=False
    )


def hostile(word: str, folder: Path) -> LaunchOrder:
    job = Job("x", ("python", "t.py", word), folder=str(folder), env=(("A", word),))
    config = Config.data_parallel(16, 8, "A100")
    made = order(Launch("export", job, config, 1, folder), Cluster((Device("A100", per_node=4),)))
    device = Config.data_parallel(16, 8, word)
    return replace(made, name=word, about=(word, "written by cotune export"), config=device)


@pytest.mark.parametrize("word", HOSTILE)
@pytest.mark.parametrize("target", names())
def test_no_export_runs_what_a_job_contains(target: str, word: str, tmp_path: Path) -> None:
    if target == "slurm" and "\n" in word:
        with pytest.raises(UsageError, match="on one line"):
            write(target, hostile(word, tmp_path))
        made = replace(hostile(word, tmp_path), config=Config.data_parallel(16, 8, "A100"))
    else:
        made = hostile(word, tmp_path)
    text = write(target, made)
    if target in ("torchrun", "slurm"):
        run(text, tmp_path)
    elif target == "ray":
        compile(text, "driver", "exec")
        assert not [line for line in text.splitlines() if line.strip().startswith(ACT)]
    else:
        document = yaml.safe_load(text)
        assert {"name", "apiVersion", "compute_environment"} & set(document)
    if target == "skypilot":
        run(document["run"], tmp_path)
    if target == "accelerate":
        shown = "\n".join(line.removeprefix("#   ") for line in text.splitlines() if line.startswith("#   "))
        run(shown, tmp_path)
    assert not (tmp_path / "P").exists()


def test_kubernetes_gets_values_that_it_leaves_alone(tmp_path: Path) -> None:
    trainer = yaml.safe_load(write("kubeflow", hostile("$(API_KEY)", tmp_path)))["spec"]["trainer"]
    assert trainer["args"][-1] == "$$(API_KEY)"
    assert {"name": "A", "value": "$$(API_KEY)"} in trainer["env"]


@pytest.mark.parametrize("word", HOSTILE)
def test_the_batch_script_of_the_engine_runs_nothing_of_the_name(word: str, tmp_path: Path) -> None:
    launch = Launch("x", Job(word, ("t",)), Config.data_parallel(1, 1), 1, tmp_path)
    text = batch_script(launch, tmp_path, 1, [[]])
    run(text, tmp_path)
    assert not (tmp_path / "P").exists()
    with pytest.raises(UsageError, match="on one line"):
        batch_script(launch, tmp_path, 1, [[f"--qos=low\n{ACT}"]])
