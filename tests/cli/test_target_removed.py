"""A job whose target is taken out of its file, or given by a flag only, stays the same job with its samples."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from cli.jobs import cotune, script

FILE = (
    "name: digits\nrun: python train.py {batch_size} {epochs}\nexamples: 1440\nmax_epochs: 3\n"
    "search: {workers: [1], batch_size: [16, 48]}\n"
)
TARGET = "target: {metric: loss, at_most: 0.3}\n"


def test_a_job_whose_target_is_removed_stays_the_same_job_with_its_samples(tmp_path: Path) -> None:
    file = script(tmp_path)
    file.write_text(
        file.read_text().replace("report(epoch=epoch, accuracy=accuracy)", "report(epoch, loss=1-accuracy)")
    )
    (tmp_path / "cotune.yaml").write_text(FILE + TARGET)
    assert cotune(tmp_path, "profile", "--max-samples", "2").code == 0
    (tmp_path / "cotune.yaml").write_text(FILE)
    predicted = cotune(tmp_path, "predict", "--all", "--json")
    assert predicted.code == 0, predicted.err
    planned = cotune(tmp_path, "plan", "--no-measure", "--epochs", "2", "--json")
    assert planned.code == 0, planned.err
    assert cotune(tmp_path, "run", "--json").code == 0
    assert cotune(tmp_path, "record", "-o", str(tmp_path / "recording")).code == 0
    assert "metric: loss" in (tmp_path / "recording" / "job.yaml").read_text()
    with sqlite3.connect(tmp_path / ".cotune" / "store.db") as store:
        assert store.execute("SELECT count(DISTINCT fingerprint) FROM samples").fetchone() == (1,)


def test_a_metric_that_is_named_is_the_one_that_counts(tmp_path: Path) -> None:
    script(tmp_path)
    (tmp_path / "cotune.yaml").write_text(FILE)
    assert cotune(tmp_path, "profile", "--max-samples", "2").code == 0
    (tmp_path / "cotune.yaml").write_text(FILE + TARGET)
    assert cotune(tmp_path, "plan", "--no-measure").code == 3
