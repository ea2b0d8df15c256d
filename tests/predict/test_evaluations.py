"""What evaluations cost, what few of them tell, and how noisy they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotune.predict.evaluation_noise import LEAST, evaluation_noise
from cotune.predict.learn import forecaster
from cotune.predict.samples import LearningCurve
from cotune.space import Configs
from cotune.types import Cluster, Config, Evaluation, ProgressUnit, Sample, Terms
from predict.worlds import JOB

CONFIG = Config.data_parallel(64, 1)


@pytest.mark.parametrize("unit", [ProgressUnit(), ProgressUnit("steps", 40.0)])
def test_evaluations_are_paid_for_as_often_as_they_came(unit: ProgressUnit) -> None:
    curve = tuple(Evaluation(4.0 * number, 0.1 * number, 40.0 * number) for number in range(1, 6))
    sample = Sample(CONFIG, 20.0, 10.0, 0.5, Terms(startup=1.0, evaluation=2.0), curve, 200.0)
    outlook = forecaster(replace(JOB, counting=unit), [sample], Cluster())(Configs.of([CONFIG]), 40)
    assert outlook.overhead[0] == pytest.approx(2.0 / 4)


def trained(values: list[float], batch: int = 64) -> Sample:
    curve = tuple(Evaluation(float(epoch), value, float(epoch)) for epoch, value in enumerate(values, 1))
    return Sample(Config.data_parallel(batch, 1), float(len(values)), 1.0, values[-1], curve=curve, seconds=1.0)


@pytest.mark.parametrize("scaling", ["scaled", "fixed", "unknown"])
def test_two_evaluations_that_rise_are_expected_to_go_on(scaling: str) -> None:
    job = replace(JOB, scaling=scaling)
    learning = forecaster(job, [trained([0.3, 0.5])], Cluster())(Configs.of([CONFIG]), 8).learning
    assert learning is not None
    assert learning.best[0, -1] > 0.55


@pytest.mark.parametrize("seen", [2, 3])
def test_few_evaluations_leave_much_in_doubt_and_more_of_them_less(seen: int) -> None:
    whole = [0.9 - 0.6 / epoch**0.8 for epoch in range(1, 17)]
    few, many = (
        forecaster(JOB, [trained(whole[:count])], Cluster())(Configs.of([CONFIG]), 32).learning for count in (seen, 16)
    )
    assert few is not None
    assert many is not None
    last = seen - 1
    risen = whole[last] - whole[0]
    assert few.spread[0, 2 * seen - 1] > risen / seen  # a doubling after the end
    assert many.spread[0, 31] < few.spread[0, 2 * seen - 1]


def curve_of(values: list[float]) -> LearningCurve:
    return LearningCurve(64, 64, np.arange(1.0, len(values) + 1), np.array(values))


def test_a_steep_beginning_is_no_noise() -> None:
    steep = [0.74, 0.82, 0.8285]
    assert evaluation_noise([curve_of(steep)], 0.1)[0] == pytest.approx(LEAST * 0.1)
    smooth = [0.9 - 0.6 / epoch for epoch in range(1, 9)]
    assert evaluation_noise([curve_of(smooth)], 0.6)[0] < 0.01


def test_noise_is_told_by_what_jumps_from_one_evaluation_to_the_next() -> None:
    noise = np.random.default_rng(0).normal(0.0, 0.02, 60)
    values = (0.9 - 0.6 / np.arange(1.0, 61.0) + noise).tolist()
    assert evaluation_noise([curve_of(values)], 0.6)[0] == pytest.approx(0.02, rel=0.35)
