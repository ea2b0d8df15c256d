"""What evaluations cost where they come every few steps, and not once an epoch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotune.predict import forecaster
from cotune.space import Configs
from cotune.types import Cluster, Config, Evaluation, ProgressUnit, Sample, Terms
from predict.worlds import JOB

CONFIG = Config.data_parallel(64, 1)


@pytest.mark.parametrize(("unit", "often"), [(ProgressUnit(), 1.0), (ProgressUnit("steps", 40.0), 0.25)])
def test_evaluations_are_paid_for_as_often_as_they_came(unit: ProgressUnit, often: float) -> None:
    curve = tuple(Evaluation(4.0 * number, 0.1 * number, 40.0 * number) for number in range(1, 6))
    sample = Sample(CONFIG, 20.0, 10.0, 0.5, Terms(startup=1.0, evaluation=2.0), curve, 200.0)
    outlook = forecaster(replace(JOB, counting=unit), [sample], Cluster())(Configs.of([CONFIG]), 40)
    assert outlook.overhead[0] == pytest.approx(2.0 * often)
