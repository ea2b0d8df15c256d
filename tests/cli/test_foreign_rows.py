"""Rows of a store are data, not commands: a folder that they name is neither removed nor written to."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from cli.jobs import JOB, TRAINING, checkpointing, cotune


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of somebody else, with files of the names that cotune gives to its own."""
    folder = tmp_path / "somebody"
    (folder / "checkpoint").mkdir(parents=True)
    for name in ("checkpoint/thesis.pt", "rank-0.result.json", "stop", "slurm.sh"):
        (folder / name).write_text("precious")
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def plant(project: Path, victim: Path, change: str) -> None:
    """Let a row of the store name the victim's folder."""
    with sqlite3.connect(project / ".cotune" / "store.db") as store:
        store.execute(f"UPDATE samples SET folder = ?, {change}", (str(victim),))


def test_a_profile_removes_nothing_of_a_folder_that_a_row_names(tmp_path: Path, victim: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    checkpointing(project)
    measure = ("profile", *JOB, "--max-epochs", "3", "--max-samples")
    assert cotune(project, *measure, "1", *TRAINING).code == 0
    plant(project, victim, "failure = 'it broke', cause = 'job'")
    before = contents(victim)
    assert cotune(project, *measure, "2", *TRAINING).code == 0
    assert contents(victim) == before


def test_a_run_is_not_resumed_in_a_folder_that_a_row_names(tmp_path: Path, victim: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    checkpointing(project, after="if epoch == 2: sys.exit(3)")
    run = ("run", "--name", "digits", "--examples", "1440", "-w", "1", "-b", "16", "--epochs", "3")
    assert cotune(project, *run, *TRAINING).code == 7
    plant(project, victim, "ended = 1")
    before = contents(victim)
    done = cotune(project, *run, "--resume", *TRAINING)
    assert (done.code, "none of this project's run folders" in done.err) == (3, True), done.err
    assert contents(victim) == before


def test_a_run_is_not_resized_in_a_folder_that_a_row_names(tmp_path: Path, victim: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    checkpointing(project)
    (project / "cotune.yaml").write_text("name: digits\nrun: python train.py {batch_size} {epochs}\nexamples: 1440\n")
    assert cotune(project, "run", "-w", "1", "-b", "16", "--epochs", "1").code == 0
    plant(project, victim, "ended = 0, writer = NULL")
    before = contents(victim)
    done = cotune(project, "resize", "2")
    assert (done.code, "none of this project's run folders" in done.err) == (3, True), done.err
    assert contents(victim) == before
