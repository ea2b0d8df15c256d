"""The files behind a command: an edit of them is noticed, and changes no plan."""

from __future__ import annotations

from pathlib import Path

import pytest

import cotune
from budget import flows
from cotune.jobfile.scripts import changed_since, digests, note_digests, python_script
from cotune.types import Job


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python train.py --lr 1", "train.py"),
        ("python -u -m src.train", "src/train.py"),
        ("python -m torch.distributed.run train.py", "train.py"),
        ("python -m ../train", None),
        ("python missing.py", None),
        ("./go 64", None),
    ],
)
def test_the_script_of_a_command_is_found_by_its_path_or_as_a_module(
    tmp_path: Path, command: str, found: str | None
) -> None:
    (tmp_path / "src").mkdir()
    for name in ("train.py", "src/train.py", "go"):
        (tmp_path / name).write_text("print(1)\n")
    assert python_script(command.split(), tmp_path) == (tmp_path / found if found else None)


@pytest.mark.parametrize("edited", ["run.sh", "train.py", "model.py", "conf.yaml"])
def test_an_edit_of_a_file_behind_a_command_is_noticed(tmp_path: Path, edited: str) -> None:
    for name, text in {"run.sh": "", "train.py": "import model", "model.py": "", "conf.yaml": "lr: 0.1"}.items():
        (tmp_path / name).write_text(f"{text}\n")
    job = Job("job", command=("./run.sh", "train.py", "--config=conf.yaml"), folder=str(tmp_path))
    start = tmp_path / "start"
    start.mkdir()
    note_digests(job, start)
    assert changed_since(digests(job), start) == []
    (tmp_path / edited).write_text("# edited\n")
    assert changed_since(digests(job), start) == [edited]


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
