"""The benchmark of prediction: errors and coverage as defined, on configs not seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cotune.lab.bench.prediction import bench_prediction, default_predictors, designed, prediction_summaries
from cotune.predict.learn import forecaster
from cotune.recording import read
from lab.worlds import world


def test_errors_are_those_of_eq_12_on_configs_not_seen(tmp_path: Path) -> None:
    folder = world(tmp_path / "world")
    (row,) = bench_prediction([folder], ["ring"], [8], processes=1)
    seen, truth = read(folder).halves()
    samples = designed(seen, 8, 0)
    known = {sample.config for sample in samples}
    configs = truth.space(with_accuracy=False).configs()
    unseen = configs.take(np.array([config not in known for config in configs]))
    right = truth.epoch_seconds(unseen)
    wrong = np.abs(
        forecaster(seen.job, samples, seen.cluster, predictor="ring", accuracy=None)(unseen, 1).epoch_seconds - right
    )
    assert (row.recording, row.quantity, row.samples) == ("world", "epoch_seconds", 8)
    assert row.mre == pytest.approx(wrong.sum() / right.sum())
    assert row.mape == pytest.approx((wrong / right).mean())
    assert 0 <= row.coverage <= 1
    assert row.interval_score > 0


def test_a_recording_needs_eight_more_configs_than_samples(tmp_path: Path) -> None:
    folder = world(tmp_path / "world")  # 20 configs
    rows = bench_prediction([folder], ["ring"], [12, 13], processes=1)
    assert [row.samples for row in rows] == [12]


def test_accuracy_is_predicted_apart_and_both_readings_of_the_paper_take_part(tmp_path: Path) -> None:
    assert {"isotonic(reading=pooled)", "isotonic(reading=sliced)", "gaussian"} <= set(default_predictors())
    rows = bench_prediction(
        [world(tmp_path / "world")], ["posterior", "isotonic(reading=pooled)"], [4], draws=2, processes=1
    )
    accuracy = {row.predictor: row for row in rows if row.quantity == "accuracy"}
    assert set(accuracy) == {"posterior", "isotonic(reading=pooled)"}
    assert accuracy["posterior"].mre < 0.1
    assert prediction_summaries(rows)[0]["recordings"] == 1
