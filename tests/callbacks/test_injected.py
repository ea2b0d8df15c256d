"""Scripts of transformers, TRL, Lightning and Accelerate, as they are: run by two workers, stopped, gone on with."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.jobs import cotune
from cotune.callbacks import injected
from cotune.callbacks.change_accelerate import arguments as accelerator_arguments
from cotune.callbacks.change_lightning import arguments as lightning_arguments
from cotune.callbacks.change_transformers import arguments as training_arguments

EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"
SCRIPTS = {  # what each needs, its metric and a level that it soon meets
    "hf_trainer": (("transformers", "accelerate"), "eval_loss=4.5"),
    "trl_sft": (("trl", "accelerate"), "eval_loss=5.2"),
    "lightning_net": (("lightning",), "val_acc=0.3"),
    "accelerate_net": (("accelerate",), "eval_loss=0.7"),
}


def present(name: str) -> Any:
    lacking = [package for package in SCRIPTS[name][0] if importlib.util.find_spec(package) is None]
    return pytest.param(name, marks=pytest.mark.skipif(bool(lacking), reason=f"not installed: {', '.join(lacking)}"))


def in_its_own_python(name: str, folder: Path, **told: str) -> list[dict[str, Any]]:
    """Run a script as cotune's engines run another Python, and return what it told."""
    report = folder / "rank-0.jsonl"
    report.unlink(missing_ok=True)
    env = {**os.environ, "COTUNE_REPORT": str(report), "COTUNE_CHECKPOINT": str(folder / "checkpoint"), **told}
    env |= injected.on_path(env)
    (folder / "checkpoint").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in report.read_text().splitlines()]


@pytest.mark.parametrize("name", [present(name) for name in SCRIPTS])
def test_two_workers_run_a_script_as_it_is_to_its_target(name: str, tmp_path: Path) -> None:
    script = EXAMPLES / f"{name}.py"
    (tmp_path / script.name).write_text(script.read_text())
    assert cotune(tmp_path, "init", "--", "python", script.name).code == 0
    words = ("--workers", "2", "--batch-size", "16", "--target", SCRIPTS[name][1], "--deadline", "10m", "--json")
    run = cotune(tmp_path, "run", *words)
    assert run.code == 0, run.err
    assert run.json["met"]
    assert run.json["run"]["config"]["workers"] == 2
    assert run.json["run"]["curve"]


@pytest.mark.parametrize("name", [present(name) for name in ("hf_trainer", "trl_sft", "lightning_net")])
def test_a_script_that_is_told_to_stop_leaves_a_checkpoint_and_goes_on_from_it(name: str, tmp_path: Path) -> None:
    length = {"COTUNE_TRAINER": "report,batch_size,steps", "COTUNE_BATCH_SIZE": "16", "COTUNE_STEPS": "3"}
    (tmp_path / "stop").touch()
    stopped = in_its_own_python(name, tmp_path, COTUNE_STOP=str(tmp_path / "stop"), **length)
    assert max(line.get("step", 0) for line in stopped) == 1
    assert any("checkpoint" in line["terms"] for line in stopped)
    assert any((tmp_path / "checkpoint").iterdir())
    again = in_its_own_python(name, tmp_path, COTUNE_RESUME="1", **length)
    steps = [line["step"] for line in again if "step" in line]
    assert steps[0] == 1, "it goes on where it was"
    assert steps[-1] > 1, "and trains on; of steps that take milliseconds not all are told"


@pytest.mark.parametrize("name", [present("accelerate_net")])
def test_a_loop_around_accelerate_saves_its_state_and_leaves_when_it_is_told_to_stop(name: str, tmp_path: Path) -> None:
    (tmp_path / "stop").touch()
    told = in_its_own_python(name, tmp_path, COTUNE_STOP=str(tmp_path / "stop"), COTUNE_TRAINER="report")
    assert max(line.get("step", 0) for line in told) == 1
    assert any("its state is in" in line.get("warning", "") for line in told)
    assert (tmp_path / "checkpoint" / "step_1").is_dir()


@pytest.mark.parametrize("name", [present("lightning_net")])
def test_the_batch_of_a_lightning_script_is_that_of_the_config(name: str, tmp_path: Path) -> None:
    numbers = {"COTUNE_TRAINER": "report,batch_size,lr,epochs", "COTUNE_BATCH_SIZE": "250"}
    told = in_its_own_python(name, tmp_path, COTUNE_EPOCHS="1", COTUNE_LR="0.02", COTUNE_METRIC="val_acc", **numbers)
    assert [line["step"] for line in told if line.get("accuracy") is not None] == [10], "2500 examples by 250"


@pytest.mark.parametrize(("precision", "bf16", "fp16"), [("bf16", True, False), ("fp32", False, False)])
def test_the_numbers_of_the_config_are_arguments_of_the_framework(
    precision: str, bf16: bool, fp16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"TRAINER": "report,batch_size,lr,epochs,accumulate,precision", "BATCH_SIZE": "16", "LR": "0.1"}
    told |= {"EPOCHS": "3", "ACCUMULATE": "4", "PRECISION": precision}
    for name, value in told.items():
        monkeypatch.setenv(f"COTUNE_{name}", value)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert training_arguments() == {
        "per_device_train_batch_size": 16,
        "learning_rate": 0.1,
        "num_train_epochs": 3,
        "gradient_accumulation_steps": 4,
        "bf16": bf16,
        "fp16": fp16,
        "max_steps": -1,
    }
    own = "bf16-mixed" if bf16 else "32-true"
    assert lightning_arguments() == {
        "max_epochs": 3,
        "max_steps": -1,
        "accumulate_grad_batches": 4,
        "precision": own,
    }
    mixed = "bf16" if bf16 else "no"
    assert accelerator_arguments() == {"gradient_accumulation_steps": 4, "mixed_precision": mixed}


def test_a_precision_that_no_framework_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTUNE_TRAINER", "precision")
    monkeypatch.setenv("COTUNE_PRECISION", "fp7")
    with pytest.raises(ValueError, match="fp32, bf16 or fp16"):
        injected.precision()


def test_nothing_is_watched_without_cotune(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(injected.VARIABLE, raising=False)
    before = list(sys.meta_path)
    injected.install()
    assert sys.meta_path == before
    assert training_arguments() == {}
    assert injected.on_path({}) == {}


def test_another_python_finds_cotune_and_still_runs_the_sitecustomize_it_hides(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.hidden = 1")
    env = {"COTUNE_TRAINER": "report", "PYTHONPATH": str(tmp_path)}
    code = "import sys; print(hidden, any('cotune' in type(one).__module__ for one in sys.meta_path))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env | injected.on_path(env), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "True"]
