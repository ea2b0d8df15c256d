"""The files behind a command: an edit of them is noticed, and changes no plan."""

from __future__ import annotations

from pathlib import Path

import pytest

import cotune
from budget import flows
from cotune.init.draft import draft
from cotune.jobfile.scripts import called_scripts, changed_since, digests, note_digests, python_script
from cotune.types import Job

TRAIN = """
import argparse, model
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--lr", type=float, default=0.05)
print(f"epoch {epoch} val_acc {100 * accuracy:.2f}%")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    for name in ("train.py", "src/train.py", "src/tool.py"):
        (tmp_path / name).write_text(TRAIN)
    (tmp_path / "model.py").write_text("width = 64\n")
    (tmp_path / "setup.sh").write_text("export DATA=/data\n")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ('python train.py --batch-size "$1"', ["train.py"]),
        ('exec "$(dirname "$0")"/train.py "$@"', ["train.py"]),
        ("python $HERE/train.py", ["train.py"]),
        ("cd src && python -u tool.py", ["src/tool.py"]),
        ("source setup.sh; python -m src.train", ["setup.sh", "src/train.py"]),
        ("# python train.py\npython src/train.py", ["src/train.py"]),
        ("python missing.py", []),
    ],
)
def test_what_a_shell_script_calls_is_found(folder: Path, line: str, called: list[str]) -> None:
    (folder / "run.sh").write_text(f"#!/bin/bash\n{line}\n")
    assert called_scripts(("bash", "run.sh", "64"), folder) == [folder / name for name in called]


def test_a_shell_script_is_known_by_its_first_line_too(folder: Path) -> None:
    (folder / "go").write_text("#!/usr/bin/env bash\npython train.py\n")
    (folder / "data").write_text("python train.py\n")
    assert python_script(("./go", "64"), folder) == folder / "train.py"
    assert python_script(("./data", "64"), folder) is None


def test_shell_scripts_that_call_each_other_come_to_an_end(folder: Path) -> None:
    (folder / "a.sh").write_text("bash b.sh\n")
    (folder / "b.sh").write_text("bash a.sh; python train.py\n")
    assert folder / "train.py" in called_scripts(("./a.sh",), folder)


@pytest.mark.parametrize("edited", ["run.sh", "train.py", "model.py", "conf.yaml"])
def test_an_edit_of_what_a_shell_script_calls_is_noticed(folder: Path, edited: str) -> None:
    (folder / "run.sh").write_text("python train.py $1 $2\n")
    (folder / "conf.yaml").write_text("lr: 0.1\n")
    job = Job("wrapped", command=("./run.sh", "{batch_size}", "--config=conf.yaml"), folder=str(folder))
    start = folder / "start"
    start.mkdir()
    note_digests(job, start)
    assert changed_since(digests(job), start) == []
    (folder / edited).write_text((folder / edited).read_text() + "# edited\n")
    assert changed_since(digests(job), start) == [edited]


def test_init_reads_the_script_behind_a_shell_script(folder: Path) -> None:
    (folder / "run.sh").write_text('python train.py --batch-size "$1" --epochs "$2" --lr "$3"\n')
    drafted = draft(("./run.sh", "{batch_size}", "{epochs}", "{lr}"), folder, "wrapped", None, 2)
    assert drafted.command == ("./run.sh", "{batch_size}", "{epochs}", "{lr}")
    assert "lr: {at: 0.05, global_batch: 64" in drafted.text
    assert "max_epochs: 10" in drafted.text
    assert "val_acc" in drafted.text


def test_flags_are_put_in_only_where_the_shell_script_hands_them_on(folder: Path) -> None:
    (folder / "run.sh").write_text("python train.py --batch-size ${BATCH:-64}\n")
    assert draft(("./run.sh",), folder, "wrapped", None, 2).command == ("./run.sh",)
    (folder / "run.sh").write_text('python train.py "$@"\n')
    assert "--batch-size {batch_size}" in " ".join(draft(("./run.sh",), folder, "wrapped", None, 2).command)


def test_what_a_script_says_changes_no_plan(tmp_path: Path) -> None:
    flows.prepare(tmp_path)
    script = tmp_path / "train.py"
    told = (
        "# CosineAnnealingLR(optimiser, T_max=epochs); lr = lr * world_size\n"
        "from transformers import Trainer\n"
        "import os; os.environ['COTUNE_PRECISION']\n"
    )

    def planned() -> object:
        with cotune.open(tmp_path / "cotune.yaml") as project:
            return project.plan(target="accuracy=0.98", deadline="2h"), project.settings

    before = planned()
    script.write_text(told + script.read_text())
    assert planned() == before
    script.unlink()
    assert planned() == before
