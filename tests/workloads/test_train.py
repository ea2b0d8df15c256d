from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cotune.errors import InvalidFile, NotFound
from cotune.workloads import batches
from cotune.workloads.checkpoint import FILE
from cotune.workloads.train import main
from cotune.workloads.workers import Pulse, Workers
from torchrun import finished

FEW = ("--limit", "101", "--test-limit", "60", "--lr", "0.05", "--device", "cpu", "--threads", "1")
Training = Callable[..., dict[str, Any]]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Training:
    """Return a function that trains LeNet-5 on a few digits and returns its last checkpoint."""

    def run(*flags: str | int, file: str = "checkpoint", resume: bool = False) -> dict[str, Any]:
        monkeypatch.setenv("COTUNE_CHECKPOINT", str(tmp_path / file))
        monkeypatch.setenv("COTUNE_RESUME", "1" if resume else "0")
        assert main([*FEW, *map(str, flags)]) == 0
        state: dict[str, Any] = torch.load(tmp_path / file / FILE, weights_only=True)
        return state

    return run


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    file = tmp_path / "reports"
    monkeypatch.setenv("COTUNE_REPORT", str(file))
    return lambda: [json.loads(line) for line in file.read_text().splitlines()]


def same(one: dict[str, Any], other: dict[str, Any], tolerance: float = 0.0) -> bool:
    pairs = zip(one["model"].values(), other["model"].values(), strict=True)
    return all(torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in pairs)


def test_lenet_learns_the_digits(reports: Callable[[], list[dict[str, Any]]]) -> None:
    assert main([*FEW[4:], "--batch-size", "32", "--epochs", "6"]) == 0
    told = reports()
    accuracies = [line["accuracy"] for line in told if line["accuracy"] is not None]
    assert len(accuracies) == 6
    assert max(accuracies) > 0.95
    assert told[0]["epoch"] == 0
    epochs = [line["epoch"] for line in told]
    assert epochs == sorted(epochs)
    assert any(epoch % 1 for epoch in epochs)
    assert {"compute", "input", "evaluation"} <= told[-1]["terms"].keys()
    assert told[-1]["metrics"]["train_accuracy"] > 0.95


def test_accumulating_equals_a_larger_batch(train: Training) -> None:
    whole = train("--batch-size", 32, "--epochs", 3)
    parts = train("--batch-size", 8, "--accumulate", 4, "--epochs", 3)
    assert same(whole, parts, 1e-5)
    assert not same(whole, train("--batch-size", 8, "--epochs", 3), 1e-3)


def test_two_workers_equal_one_and_stop_together(
    train: Training, reports: Callable[[], list[dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTUNE_TARGET", "0.3")
    alone = train("--batch-size", 32, "--epochs", 30)
    assert 0 < alone["epoch"] < 30
    told_alone = [line["accuracy"] for line in reports() if line["accuracy"] is not None]
    (tmp_path / "reports").unlink()

    environment = {**os.environ, "COTUNE_CHECKPOINT": str(tmp_path / "two"), "OMP_NUM_THREADS": "1"}
    command = "-m torch.distributed.run --standalone --nproc-per-node 2 -m cotune.workloads.train"
    flags = ["--batch-size", "8", "--accumulate", "2", "--epochs", "30"]
    finished([sys.executable, *command.split(), *FEW, *flags], environment)

    assert same(alone, torch.load(tmp_path / "two" / FILE, weights_only=True), 1e-4)
    told = [line["accuracy"] for line in reports() if line["accuracy"] is not None]
    assert sorted(told) == sorted(2 * told_alone)
    assert "communication" in reports()[-1]["terms"]


def test_a_resumed_run_ends_where_an_uninterrupted_one_does(train: Training) -> None:
    whole = train("--batch-size", 16, "--epochs", 4, "--decay", 0.9, file="whole")
    train("--batch-size", 16, "--epochs", 2, "--decay", 0.9)
    resumed = train("--batch-size", 16, "--epochs", 4, "--decay", 0.9, resume=True)
    assert resumed["epoch"] == 4
    assert same(whole, resumed)
    assert not same(whole, train("--batch-size", 16, "--epochs", 2, "--decay", 0.9))


def test_a_run_stopped_in_mid_epoch_goes_on_from_there(
    train: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train("--batch-size", 16, "--epochs", 2, file="whole")
    monkeypatch.setenv("COTUNE_REPORT", str(tmp_path / "reports"))
    monkeypatch.setenv("COTUNE_STOP", str(tmp_path))  # it exists, so the first beat stops the run
    stopped = train("--batch-size", 16, "--epochs", 2)
    assert (stopped["epoch"], stopped["seen"]) == (0, 16)
    monkeypatch.delenv("COTUNE_STOP")
    assert same(whole, train("--batch-size", 16, "--epochs", 2, resume=True))


def test_a_checkpoint_of_another_model_or_a_torn_one_is_refused(
    train: Training, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train("--epochs", 1)
    assert main([*FEW, "--epochs", "2", "--model", "cifar10dnn"]) == 0  # COTUNE_RESUME is off: starts afresh
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COTUNE_RESUME", "1")
        assert main([*FEW, "--epochs", "3"]) == InvalidFile.exit_code
        assert "no checkpoint of this model" in capsys.readouterr().err
        file = tmp_path / "checkpoint" / FILE
        file.write_bytes(file.read_bytes()[:1000])
        assert main([*FEW, "--epochs", "3"]) == InvalidFile.exit_code
        assert "cannot read the checkpoint" in capsys.readouterr().err


def test_training_outlives_a_checkpoint_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COTUNE_CHECKPOINT", str(tmp_path / "file" / "checkpoint"))
    assert main([*FEW, "--epochs", "1"]) == 0
    told = capsys.readouterr()
    assert "no checkpoint written" in told.err
    assert "epoch 1 " in told.out


def test_missing_data_end_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COTUNE_DATA", str(tmp_path))
    assert main(["--data", "cifar10"]) == NotFound.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path) in line


@pytest.mark.parametrize("flags", [["--batch-size", "0"], ["--model", "lenet"], ["--epochs", "-1"], ["--limit", "x"]])
def test_a_wrong_flag_is_a_usage_error(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(flags)
    assert ended.value.code == 2
    assert flags[0] in capsys.readouterr().err


def test_the_pulse_beats_after_1_3_and_7_steps_when_steps_are_quick() -> None:
    pulse = Pulse(Workers(0, 1, torch.device("cpu")), seconds=60)
    beats = []
    for step in range(1, 20):
        if pulse.due():
            beats.append(step)
            pulse.agree(False)
    assert beats == [1, 3, 7, 15]


def test_an_idle_rank_has_a_stand_in() -> None:
    (step,) = batches.steps(torch.tensor([5]), batch_size=4, rank=1, workers=2)
    assert step.idle
    assert step.examples == 1
    assert [batch.tolist() for batch in step.batches] == [[5]]
