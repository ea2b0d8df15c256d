"""What evaluations cost, and what few of them tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotune.forecast import Learning
from cotune.predict.learn import forecaster
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


def width(learning: Learning, epoch: int) -> float:
    low, high = learning.surely(0.84)[0, epoch - 1], learning.surely(0.16)[0, epoch - 1]
    return float(high - low) / 2


@pytest.mark.parametrize("scaling", ["scaled", "fixed", "unknown"])
def test_two_evaluations_that_rise_are_expected_to_go_on(scaling: str) -> None:
    job = replace(JOB, scaling=scaling)
    learning = forecaster(job, [trained([0.3, 0.5])], Cluster())(Configs.of([CONFIG]), 8).learning
    assert learning is not None
    assert learning.surely(0.5)[0, -1] > 0.55


@pytest.mark.parametrize("seen", [2, 3])
def test_few_evaluations_leave_much_in_doubt_and_more_of_them_less(seen: int) -> None:
    whole = [0.9 - 0.6 / epoch**0.8 for epoch in range(1, 17)]
    few, many = (
        forecaster(JOB, [trained(whole[:count])], Cluster())(Configs.of([CONFIG]), 32).learning for count in (seen, 16)
    )
    assert few is not None
    assert many is not None
    risen = whole[seen - 1] - whole[0]
    doubled = width(few, 2 * seen)
    assert doubled > 0.1 * risen
    assert width(many, 32) < doubled
