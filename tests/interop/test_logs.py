"""Logs that the tools themselves have written (make_logs.py), read back and held to the truth."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import sqlite3
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from cli.jobs import cotune
from cotune.errors import CotuneError, InvalidFile, NotFound
from cotune.interop.logged import Logged, Point, logs_of, names
from cotune.interop.measured import Hints, measured
from cotune.types import Config, Job, Sample
from interop import environments

LOGS = Path(__file__).parent / "logs"
JOB = Job("softmax", examples=512)
TWO = Config.data_parallel(32, 2)
NAME = re.compile(r"w(?P<workers>\d+)-b(?P<batch_size>\d+)")


def unpacked(tool: str, into: Path) -> Path:
    """Return a database of the logs as it was before it was made small."""
    file = into / f"{tool}.db"
    file.write_bytes(lzma.decompress((LOGS / tool / f"{tool}.db.xz").read_bytes()))
    return file


def read(tool: str, source: Path, job: Job = JOB, **asked: Any) -> list[Sample]:
    return [measured(job, tool, str(source), run, Hints(**asked)) for run in logs_of(tool, source)]


def truth(file: str) -> tuple[list[float], list[float]]:
    """Return when each epoch ended, after the start of the training, and how good it was."""
    told = json.loads((LOGS / file).read_text())
    return [end["at"] - told["began"] for end in told["epochs"]], [end["accuracy"] for end in told["epochs"]]


def holds(sample: Sample, file: str, within: float = 0.02) -> None:
    """Check a sample of the two-worker training against the truth; times may differ by the tool's own delays."""
    ends, accuracy = truth(file)
    assert sample.config == TWO
    assert [point.epoch for point in sample.curve] == [1, 2, 3, 4]
    assert [point.accuracy for point in sample.curve] == pytest.approx(accuracy, abs=1e-6)
    paces = sorted(later - earlier for earlier, later in pairwise(ends))
    assert sample.epoch_seconds is not None
    assert paces[0] - within <= sample.epoch_seconds <= paces[-1] + within
    assert sample.failure is None


def test_tensorboard_tells_steps_times_and_numbers() -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'cotune[tensorboard]'")
    (sample,) = read("tensorboard", LOGS / "tensorboard", metric="val/accuracy", runs=NAME)
    holds(sample, "tensorboard/truth.json")
    assert sample.curve[0].metrics[1][0] == "train/loss"
    assert sample.terms.startup is not None
    assert sample.seconds == pytest.approx(truth("tensorboard/truth.json")[0][-1], abs=1.0)


def test_mlflow_tells_its_parameters_and_which_runs_failed(tmp_path: Path) -> None:
    first, second = read("mlflow", unpacked("mlflow", tmp_path), metric="val_accuracy")
    holds(first, "mlflow/truth.json", within=0.1)
    assert second.config.batch_size == 4096
    assert second.failed
    assert second.epoch_seconds is None
    assert second.started.startswith("2026-11-15T")


@environments.needs("wandb")
def test_wandb_prints_its_own_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(environments.python("wandb").parent))
    (sample,) = read("wandb", LOGS / "wandb", metric="val/accuracy")
    holds(sample, "wandb/truth.json", within=0.1)


def test_lightning_has_a_curve_and_no_times() -> None:
    (sample,) = read("lightning", LOGS / "lightning", metric="val_accuracy")
    assert sample.config == Config.data_parallel(64, 1)
    assert [(point.epoch, point.accuracy) for point in sample.curve][::3] == [(1, 0.8125), (4, 0.94140625)]
    assert (sample.epoch_seconds, sample.warning) == (None, "the log has no times: give the run's seconds")
    (told,) = read("lightning", LOGS / "lightning", metric="val_accuracy", seconds=8.0)
    assert (told.epoch_seconds, told.curve[1].seconds, told.seconds) == (2.0, 4.0, 8.0)


def test_huggingface_tells_evaluation_apart_from_training() -> None:
    (sample,) = read("huggingface", LOGS / "huggingface", metric="eval_accuracy", workers=1)
    state = json.loads((LOGS / "huggingface" / "out" / "trainer_state.json").read_text())["log_history"]
    evaluating = [row["eval_runtime"] for row in state if "eval_runtime" in row]
    assert sample.config == Config.data_parallel(64, 1)
    assert [point.accuracy for point in sample.curve] == [row["eval_accuracy"] for row in state if "eval_loss" in row]
    assert sample.terms.evaluation == median(evaluating)
    assert sample.epoch_seconds == pytest.approx(state[-1]["train_runtime"] / 4 - median(evaluating))
    assert sample.seconds == state[-1]["train_runtime"]


def test_a_state_that_does_not_tell_its_batch_takes_the_one_that_is_given(tmp_path: Path) -> None:
    state = json.loads((LOGS / "huggingface" / "out" / "trainer_state.json").read_text())
    del state["train_batch_size"]
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    (sample,) = read("huggingface", tmp_path, metric="eval_accuracy", workers=1, batch_size=48)
    assert sample.config.batch_size == 48
    with pytest.raises(NotFound, match="does not tell its batch size"):
        read("huggingface", tmp_path, metric="eval_accuracy", workers=1)


@pytest.mark.parametrize("kind", ["journal", "database"])
def test_optuna_reads_its_storages(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="needs optuna: pip install 'cotune[optuna]'")
    source = LOGS / "optuna" / "journal.log" if kind == "journal" else unpacked("optuna", tmp_path)
    good, bad = read("optuna", source)
    holds(good, f"optuna/{kind}.truth.json", within=0.1)
    assert bad.failed
    assert bad.config.batch_size == 4096


def test_ray_tune_counts_seconds_from_the_start_of_a_trial() -> None:
    (sample,) = read("ray_tune", LOGS / "ray_tune")
    holds(sample, "ray_tune/truth.json", within=0.05)
    assert sample.curve[-1].seconds == pytest.approx(sample.seconds)


def test_the_same_run_is_the_same_sample_whenever_it_is_read() -> None:
    assert read("ray_tune", LOGS / "ray_tune") == read("ray_tune", LOGS / "ray_tune")
    assert read("ray_tune", LOGS / "ray_tune", device="a100")[0].id != read("ray_tune", LOGS / "ray_tune")[0].id


def run(*values: dict[str, float], **more: Any) -> Logged:
    points = tuple(Point(each, step, 100.0 + 3 * step) for step, each in enumerate(values, 1))
    return Logged("r", points, {"workers": 1, "batch_size": 64}, began=100.0, **more)


@pytest.mark.parametrize(
    ("values", "asked", "epochs"),
    [
        ([{"m": 0.1}] * 4, {}, [0.125, 0.25, 0.375, 0.5]),
        ([{"m": 0.1}] * 3, {"steps_are_epochs": True}, [1, 2, 3]),
        ([{"m": 0.1, "epoch": e} for e in (0, 1, 2)], {}, [1, 2, 3]),
        ([{"m": 0.1, "epoch": e} for e in (0.5, 1, 1.5)], {}, [0.5, 1, 1.5]),
        ([{"m": 0.1, "train/epoch": 0.0}, {"m": 0.1}, {"train/epoch": 1.0}], {}, [1, 2]),
        ([{"m": 0.1, "epoch": 0.5}, {"m": 0.1}, {"epoch": 1.5}], {}, [0.5, 1.0]),
    ],
)
def test_steps_become_epochs(values: list[dict[str, float]], asked: dict[str, Any], epochs: list[float]) -> None:
    sample = measured(JOB, "t", "s", run(*values), Hints(metric="m", **asked))
    assert [point.epoch for point in sample.curve] == pytest.approx(epochs)


def test_the_speed_is_that_of_whole_epochs() -> None:
    epochs = [{"epoch": float(step // 4), "loss": 1.0} | ({"m": 0.5} if step % 4 == 3 else {}) for step in range(16)]
    sample = measured(JOB, "t", "s", run(*epochs), Hints(metric="m"))
    assert sample.epoch_seconds == pytest.approx(12.0)
    assert sample.terms.startup == pytest.approx(0.0)
    speed = measured(JOB, "t", "s", run(*epochs), Hints(speed_only=True))
    assert speed.epoch_seconds == pytest.approx(12.0)
    assert speed.curve == ()


def test_a_number_that_is_not_there_is_answered_with_the_nearest() -> None:
    found = run({"val/accuracy": 0.5, "loss": 1.0})
    with pytest.raises(
        NotFound,
        match=r"no 'accuracy'; there are loss, val/accuracy; did you mean 'val/accuracy'\?",
    ):
        measured(JOB, "t", "s", found, Hints())
    with pytest.raises(NotFound, match="did you mean 'loss'"):
        measured(JOB, "t", "s", found, Hints(metric="los"))


def test_what_a_log_cannot_tell_is_asked_for() -> None:
    bare = replace(run({"accuracy": 0.5}), params={})
    with pytest.raises(NotFound, match=r"does not tell its workers .*\(\?P<workers>"):
        measured(JOB, "t", "s", bare, Hints(batch_size=1))
    with pytest.raises(NotFound, match=r"does not tell its batch size .*\(\?P<batch_size>"):
        measured(JOB, "t", "s", bare, Hints(workers=1))
    with pytest.raises(NotFound, match="say how many examples"):
        measured(Job("x"), "t", "s", run({"accuracy": 0.5}), Hints())


def test_a_torn_event_file_keeps_what_stands_before_the_tear(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'cotune[tensorboard]'")
    whole = (LOGS / "tensorboard" / "w2-b32" / "events.out.tfevents.1.host.1.0").read_bytes()
    file = tmp_path / "events.out.tfevents.1.host"
    file.write_bytes(whole[:-10])
    (sample,) = read("tensorboard", file, metric="val/accuracy", workers=2, batch_size=32)
    assert len(sample.curve) >= 3
    assert "torn" in str(sample.warning)
    file.write_bytes(whole[:7])
    with pytest.raises(InvalidFile, match="torn at its first record"):
        read("tensorboard", file)


def test_a_torn_report_of_ray_tune_is_left_out(tmp_path: Path) -> None:
    (file,) = LOGS.glob("ray_tune/*/*/result.json")
    (tmp_path / "result.json").write_text(file.read_text()[:-30])
    (sample,) = read("ray_tune", tmp_path)
    assert len(sample.curve) == 3
    assert "torn" in str(sample.warning)


@pytest.mark.parametrize("tool", sorted(set(names()) - {"wandb"}))
def test_a_wrong_file_is_an_error_that_names_it(tool: str, tmp_path: Path) -> None:
    pytest.importorskip({"tensorboard": "tensorboard", "optuna": "optuna"}.get(tool, "json"))
    file = tmp_path / "notes.txt"
    file.write_text("dear diary,\nnothing was logged today\n")
    with pytest.raises(InvalidFile, match=r"notes\.txt"):
        read(tool, file)
    with pytest.raises(NotFound, match="no file or folder"):
        read(tool, tmp_path / "nowhere")


@pytest.mark.parametrize("tool", sorted(set(names()) - {"optuna"}))
def test_an_empty_folder_holds_no_run(tool: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="holds no run"):
        read(tool, tmp_path)


def test_another_database_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "mlflow.db") as other:
        other.execute("CREATE TABLE cats (name TEXT)")
    other.close()
    with pytest.raises(InvalidFile, match=r"no database of MLflow: no such table: runs"):
        read("mlflow", tmp_path)


def test_a_locked_database_is_said_to_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cotune.interop.logged._BUSY_SECONDS", 0.05)
    file = unpacked("mlflow", tmp_path)
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(CotuneError, match="kept locked by another process"):
            read("mlflow", file)
    finally:
        holder.close()


def test_without_wandb_the_reader_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotFound, match=r"pip install 'wandb>=0\.31'"):
        read("wandb", LOGS / "wandb")


def test_imported_runs_are_planned_with(tmp_path: Path) -> None:
    (tmp_path / ".cotune").mkdir()
    (tmp_path / "cotune.yaml").write_text(
        "name: softmax\nexamples: 512\ntarget: accuracy>=0.95\nmax_epochs: 6\n"
        "search: {workers: [2], batch_size: [32]}\n"
    )
    shutil.copytree(LOGS / "ray_tune", tmp_path / "tune")
    done = cotune(tmp_path, "import", "ray-tune", "tune", "--json")
    assert done.code == 0, done.err
    assert [sample["engine"] for sample in done.json["samples"]] == ["ray_tune"]
    again = cotune(tmp_path, "import", "ray-tune", "tune")
    assert "4 epochs" in again.out
    assert "next: cotune samples, cotune predict, cotune plan" in again.out
    (tmp_path / "elsewhere" / ".cotune").mkdir(parents=True)
    (tmp_path / "cotune.yaml").rename(tmp_path / "kept.yaml")
    words = ("import", "ray-tune", "../tune", "--name", "softmax", "--examples", "512")
    assert "next: cotune record --job softmax" in cotune(tmp_path / "elsewhere", *words).out
    (tmp_path / "kept.yaml").rename(tmp_path / "cotune.yaml")
    listed = cotune(tmp_path, "samples", "--json").json["samples"]
    assert len(listed) == 1, "the same run is not two samples"
    planned = cotune(tmp_path, "plan", "--json")
    assert planned.code == 0, planned.err
    assert planned.json["plan"]["config"]["global_batch"] == 64
