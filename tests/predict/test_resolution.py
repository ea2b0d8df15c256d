"""Forecasts are of the evaluations that a job has, however it counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cotune.plan.assess import assess
from cotune.predict.learn import forecaster
from cotune.predict.resolution import rhythm_of
from cotune.space import Configs
from cotune.types import Cluster, Config, Evaluation, Floats, Goal, Job, ProgressUnit, Sample, Terms
from cotune.types.job import EPOCHS

STEPS = ProgressUnit("steps", 94.0, None, epoch_known=False)
JOB = Job("lm", ("python", "lm.py"), 1024, "loss", "lower", counting=STEPS)  # 3,000 steps of 32, in parts of 1,024
BATCHES = (8, 16, 32, 64, 128)


def run(batch: int, gap: float, count: int, pace: float = 0.5) -> Sample:
    """Return a start whose loss falls with the data seen, evaluated after every `gap` parts."""
    epochs = gap * np.arange(1.0, count + 1)
    curve = tuple(Evaluation(float(e), float(2 / (1 + 0.2 * e)), float(1 + pace * e)) for e in epochs)
    last = curve[-1]
    terms = Terms(startup=1.0, evaluation=0.1)
    config = Config.data_parallel(batch, 1)
    return Sample(config, last.epoch, pace, last.accuracy, terms, curve, last.seconds, engine="local", ended=True)


def needed(job: Job, samples: Sequence[Sample], target: float, max_epochs: int) -> Floats:
    """Return the epochs that each draw of each batch needs."""
    outlook = forecaster(job, samples, Cluster())(
        Configs.of([Config.data_parallel(batch, 1) for batch in BATCHES]), max_epochs
    )
    found = assess(outlook, Goal(target=target, max_epochs=max_epochs), Cluster(), job.sign)
    assert outlook.learning is not None
    return found.needed[outlook.learning.recipe]


def test_a_job_that_is_evaluated_every_hundred_steps_needs_a_multiple_of_them() -> None:
    samples = [run(batch, 100 * batch / 1024, 6) for batch in (16, 32)]
    for batch, parts in zip(BATCHES, needed(JOB, samples, 1.2, 94), strict=True):
        steps = parts[np.isfinite(parts)] * 1024 / batch
        assert len(steps) > 0
        np.testing.assert_allclose(steps / 100, np.round(steps / 100))


def test_a_job_that_is_evaluated_every_five_epochs_needs_a_multiple_of_them() -> None:
    job = replace(JOB, examples=60000, counting=EPOCHS)
    epochs = needed(job, [run(32, 5.0, 5), run(64, 5.0, 5)], 0.9, 60)
    assert set(np.unique(epochs)) <= {*np.arange(5.0, 61, 5), np.inf}


def test_a_length_in_parts_of_epochs_is_forecast_at_their_ends_where_those_are_evaluated() -> None:
    job = replace(JOB, examples=None, counting=ProgressUnit("epochs", 32.0))
    epochs = needed(job, [run(32, 31.6, 3, 0.02)], 0.25, 96)
    assert set(np.unique(epochs)) <= {32.0, 64.0, 96.0, np.inf}


@pytest.mark.parametrize("counting", [EPOCHS, ProgressUnit("tokens", 94.0, 32, epoch_known=False)])
def test_samples_of_several_batches_tell_that_evaluations_come_by_steps(counting: ProgressUnit) -> None:
    job = replace(JOB, counting=counting)
    by_steps = rhythm_of(job, [run(16, 25 / 64, 6), run(64, 25 / 16, 6)])
    np.testing.assert_allclose(by_steps.gaps(np.array([16, 32])), [25 / 64, 25 / 32])
    by_data = rhythm_of(job, [run(16, 0.4, 6), run(64, 0.4, 6)])
    np.testing.assert_allclose(by_data.gaps(np.array([16, 32])), [0.4, 0.4])


def test_a_recipe_that_is_evaluated_less_often_pays_for_fewer_evaluations() -> None:
    samples = [run(batch, 100 * batch / 1024, 6) for batch in (16, 32)]
    configs = Configs.of([Config.data_parallel(batch, 1) for batch in (16, 32)])
    seldom = forecaster(JOB, samples, Cluster())(configs, 94).overhead
    assert seldom[0] == pytest.approx(2 * seldom[1])


def test_each_batch_of_a_large_space_is_forecast_at_its_own_evaluations() -> None:
    samples = [run(batch, 100 * batch / 1024, 6) for batch in (16, 32)]
    configs = Configs.of([Config.data_parallel(batch, 1) for batch in range(8, 408)])
    learning = forecaster(JOB, samples, Cluster())(configs, 94).learning
    assert learning is not None
    np.testing.assert_allclose(learning.steps[learning.recipe], 100 * configs.global_batch / 1024)
