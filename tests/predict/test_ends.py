from __future__ import annotations

import numpy as np
import pytest

from cotune.plan.assess import assess
from cotune.predict.ends import turn
from cotune.predict.learn import forecaster
from cotune.predict.metric_bounds import shown_bound
from cotune.predict.samples import LearningCurve
from cotune.space import Configs
from cotune.types import Cluster, Config, Device, Evaluation, Floats, Goal, Job, Sample

CLUSTER = Cluster((Device("cpu", 8),))
CONFIG = Config.data_parallel(32, 1)
# The validation loss of two layers on 300 digits (benchmarks/turning_curves.py, batch 64, seed 1), which they learn by
# heart, and the reward of a policy that balances a pole for at most 200 steps (eight episodes an update, seed 1).
LOSS = [
    *(2.04, 1.743, 1.462, 1.233, 1.057, 0.9478, 0.88, 0.8202, 0.7731, 0.7478, 0.7338, 0.7135, 0.7067, 0.7023, 0.6894),
    *(0.6886, 0.6928, 0.6873, 0.6824, 0.679, 0.6843, 0.6909, 0.6943, 0.6964, 0.6943, 0.6913, 0.7016, 0.7065, 0.7079),
]
POLE = [
    *(22.5, 22.125, 24.125, 32.25, 35.25, 53.75, 59.375, 69.875, 63.125, 64.75, 66.875, 56.75, 72.25, 86.25, 94.0),
    *(129.625, 157.875, 182.0, 166.125, 155.75, 171.375, 165.5, 174.25, 173.0, 167.0, 150.875, 167.0, 164.75, 175.125),
    *(182.375, 200.0, 200.0, 200.0, 200.0, 200.0, 200.0),
]


def _curve(values: Floats) -> LearningCurve:
    return LearningCurve(32, 32, np.arange(1.0, len(values) + 1), np.asarray(values))


def _assessed(job: Job, values: list[float], goal: Goal):  # type: ignore[no-untyped-def]
    points = tuple(Evaluation(float(epoch), value, float(epoch)) for epoch, value in enumerate(values, 1))
    sample = Sample(CONFIG, epochs=float(len(values)), epoch_seconds=1.0, accuracy=values[-1], curve=points)
    outlook = forecaster(job, [sample], CLUSTER)(Configs.of([CONFIG]), goal.max_epochs)
    return assess(outlook, goal, CLUSTER, job.sign)


def test_a_validation_loss_that_rises_for_some_time_has_turned() -> None:
    assert turn(_curve(-np.array(LOSS))) == 20


@pytest.mark.parametrize("seen", [6, 12, 16])
def test_one_that_still_falls_has_not(seen: int) -> None:
    assert turn(_curve(-np.array(LOSS[:seen]))) is None


def test_noise_about_a_plateau_is_no_turn() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert turn(_curve(0.9 - 0.5 / np.arange(1.0, 41) + rng.normal(0, 0.01, 40))) is None


def test_a_loss_better_than_before_the_turn_is_hardly_expected() -> None:
    job = Job("digits", metric="val_loss", better="lower")
    beyond = Goal(0.66, deadline=1000, max_epochs=60)
    turned, rising = (float(_assessed(job, shown, beyond).probability[0]) for shown in (LOSS, LOSS[:16]))
    assert turned < 0.3
    assert rising > 2 * turned
    assert _assessed(job, LOSS, Goal(0.7, deadline=1000, max_epochs=60)).probability[0] > 0.8


def test_a_run_that_diverged_leaves_others_their_chance() -> None:
    diverged = [0.4, 0.5, 0.58, 0.62, 0.65, 0.68, 0.7, *[0.1] * 6]
    goal = Goal(0.72, deadline=1000, max_epochs=60)
    assert _assessed(Job("svhn"), diverged, goal).probability[0] > 0.1


def test_a_value_that_comes_again_and_again_is_a_bound() -> None:
    assert shown_bound([np.array(POLE)]) == 200
    assert np.isinf(shown_bound([np.array(POLE[:32])]))


@pytest.mark.parametrize("values", [[0.1] * 12, [0.19, 0.19, 0.19, 0.1888], [0.5, 0.6, 0.7, 0.7, 0.8, 0.7, 0.8, 0.8]])
def test_a_network_that_is_stuck_or_told_by_few_examples_shows_none(values: list[float]) -> None:
    assert np.isinf(shown_bound([np.array(values)]))


def test_no_reward_beyond_its_bound_is_expected() -> None:
    job = Job("pole", metric="reward")
    assert _assessed(job, POLE, Goal(250, deadline=1000, max_epochs=100)).probability[0] == 0
    assert _assessed(job, POLE, Goal(200, deadline=1000, max_epochs=100)).probability[0] > 0.2
    assert _assessed(job, POLE[:30], Goal(190, deadline=1000, max_epochs=100)).probability[0] > 0.5
