"""Axes that differ in kind: a value that never ran is assumed, and its ratio to others depends on the batch."""

from __future__ import annotations

import numpy as np
import pytest

from cotune.documents import config_columns
from cotune.predict.learn import forecaster
from cotune.probe.active import ActiveDesign
from cotune.probe.design import Design
from cotune.space import Axis, Configs, Space
from cotune.types import Cluster, Config, Device, Goal, Job, Sample, axes_of

JOB = Job("made-up", examples=100_000)
BATCHES = (16, 64, 256, 1024, 4096)
SPACE = Space((Axis("workers", (1, 2)), Axis("batch_size", BATCHES), Axis("precision", ("fp32", "bf16"))))


def config(batch: int, precision: str, workers: int = 1) -> Config:
    return Config.data_parallel(batch, workers, axes=axes_of({"precision": precision}))


def seconds(one: Config) -> float:
    """Launch-bound small batches are slower in bf16, matrix-bound large ones much faster."""
    launches, products = 0.004, 0.00005 * one.batch_size
    bf16 = dict(one.axes)["precision"] == "bf16"
    step = launches * (1.3 if bf16 else 1.0) + products / (4.0 if bf16 else 1.0)
    return step * (JOB.examples or 0) / (one.batch_size * one.workers)


def sample(one: Config) -> Sample:
    return Sample(one, 0.1, seconds(one), seconds=1.0)


def test_a_value_that_never_ran_is_assumed_and_its_interval_as_wide_as_such_ratios_are() -> None:
    samples = [sample(config(batch, "fp32")) for batch in BATCHES]
    wished = Configs.of([config(1024, "fp32"), config(1024, "bf16"), config(100, "fp32")])
    outlook = forecaster(JOB, samples, Cluster(), accuracy=None)(wished, 1)
    assert list(outlook.seconds_source) == ["measured", "assumed", "interpolated"]
    pace = outlook.pace(np.array([1]))[0]
    assert np.quantile(pace, 0.9) / np.quantile(pace, 0.1) > 5
    assert np.quantile(pace, 0.05) < seconds(config(1024, "bf16"))


def test_a_ratio_measured_at_a_large_batch_is_not_carried_down_as_if_it_were_known() -> None:
    samples = [sample(config(batch, "fp32")) for batch in BATCHES] + [sample(config(4096, "bf16"))]
    wished = Configs.of([config(16, "bf16"), config(1024, "bf16")])
    outlook = forecaster(JOB, samples, Cluster(), accuracy=None)(wished, 1)
    assert list(outlook.seconds_source) == ["extrapolated", "extrapolated"]
    assert outlook.spread[0] > outlook.spread[1]
    assert abs(np.log(seconds(wished[0]) / outlook.epoch_seconds[0])) < 2 * outlook.spread[0]


def test_two_points_of_each_value_tell_those_between() -> None:
    samples = [sample(config(batch, "fp32")) for batch in BATCHES]
    samples += [sample(config(batch, "bf16")) for batch in (16, 4096)]
    wished = Configs.of([config(batch, "bf16") for batch in (64, 256, 1024)])
    outlook = forecaster(JOB, samples, Cluster(), accuracy=None)(wished, 1)
    right = np.array([seconds(one) for one in wished])
    assert np.max(np.abs(outlook.epoch_seconds / right - 1)) < 0.35


@pytest.mark.parametrize("for_goal", [False, True])
def test_designs_start_every_value_with_the_smallest_and_the_largest_batch(for_goal: bool) -> None:
    goal = Goal(0.9, deadline=1000.0, max_epochs=10) if for_goal else Goal(epochs=1)
    design = (ActiveDesign if for_goal else Design)(JOB, goal, SPACE, Cluster())
    samples: list[Sample] = []
    for left in range(12, 0, -1):
        probe = design.next(samples, left)
        if probe is None or probe.curve:
            break
        samples.append(sample(probe.config))
    started = {(dict(one.config.axes)["precision"], one.config.batch_size) for one in samples}
    assert started >= {("fp32", 16), ("fp32", 4096), ("bf16", 16), ("bf16", 4096)}


def test_a_value_is_started_where_that_is_cheap() -> None:
    design, samples = Design(JOB, Goal(epochs=1), SPACE, Cluster()), [sample(config(16, "fp32"))]
    for workers in (1, 2):
        prices = np.where(SPACE.configs().workers == workers, 1.0, 1000.0)
        found = design.unstarted(samples, prices)
        assert found == config(4096, "fp32", workers)


def test_the_first_probes_for_a_goal_start_every_value_even_where_few_starts_are_left() -> None:
    design = ActiveDesign(JOB, Goal(0.9, deadline=1000.0, max_epochs=10), SPACE, Cluster())
    samples = [sample(config(16, "fp32"))]
    for left in (6, 5, 4):
        probe = design.next(samples, left)
        assert probe is not None
        samples.append(sample(probe.config))
    assert {dict(one.config.axes)["precision"] for one in samples if one.config.batch_size == 4096} == {"fp32", "bf16"}


def test_tables_show_every_named_axis_even_where_all_rows_have_the_same_value() -> None:
    assert "precision" in config_columns([config(16, "fp32"), config(64, "fp32")])


def test_workers_that_fill_nodes_unevenly_are_less_sure() -> None:
    cluster = Cluster((Device("t4", per_node=4),))
    ran = [Config.data_parallel(64, workers, "t4") for workers in (1, 2, 4, 8, 12, 16)]
    samples = [Sample(one, 0.1, 100.0 / one.workers, seconds=1.0) for one in ran]
    wished = Configs.of([Config.data_parallel(96, workers, "t4") for workers in (8, 9)])
    outlook = forecaster(JOB, samples, cluster, accuracy=None)(wished, 1)
    assert outlook.spread[1] > outlook.spread[0]
