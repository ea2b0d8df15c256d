"""Optimus's laws find their coefficients again, and its loss curve knows when it knows nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from cotune.lab.predictors.optimus import Optimus, slowest_share
from cotune.lab.predictors.simple_laws import Amdahl
from cotune.predict.learn import forecaster
from cotune.predict.loss_curve import epochs_to, fit_loss, without_outliers
from cotune.space import Configs
from cotune.types import Cluster, Config, Evaluation, Job, Sample
from predict.worlds import EXAMPLES, JOB, timed

TENSORS = (60, 20, 10, 10)
PAIRS = [(w, p) for w in (1, 2, 4, 8) for p in (1, 2, 4)]


def _samples(step: object, asynchronous: bool = False) -> list[Sample]:
    axes = (("asynchronous", asynchronous),) if asynchronous else ()
    return [
        Sample(
            Config.data_parallel(64, workers, servers=servers, axes=axes),
            epoch_seconds=EXAMPLES / (64 * workers) * step(workers, servers),  # type: ignore[operator]
        )
        for workers, servers in PAIRS
    ]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_law_of_servers_is_recovered(asynchronous: bool) -> None:
    samples = _samples(lambda w, p: 0.02 + 0.01 * w / p + 0.001 * w + 0.002 * p, asynchronous)
    model = Optimus().fit_seconds(JOB, samples)
    assert len(model.coefficients) == (4 if asynchronous else 5)  # workers that do not wait have no term of the batch
    unseen = Configs.of([Config.data_parallel(64, 6, servers=3)])
    step = 0.02 + 0.01 * 2 + 0.006 + 0.006
    np.testing.assert_allclose(model.predict(unseen), EXAMPLES / 384 * step, rtol=1e-6)


def test_the_slowest_server_sets_the_pace_where_tensors_stay_whole() -> None:
    assert [slowest_share(TENSORS, count) for count in (1, 2, 3, 4)] == [1.0, 0.6, 0.6, 0.6]
    assert slowest_share((), 4) == 0.25
    samples = _samples(lambda w, p: 0.02 + 0.01 * w * slowest_share(TENSORS, p))
    split, whole = (Optimus(tensors=tensors).fit_seconds(JOB, samples) for tensors in ((), TENSORS))
    configs, truth = Configs.of([s.config for s in samples]), np.array([s.epoch_seconds for s in samples])
    np.testing.assert_allclose(whole.predict(configs), truth, rtol=1e-6)
    assert np.abs(split.predict(configs) / truth - 1).max() > 0.05


def test_amdahl_finds_the_serial_part() -> None:
    samples = [Sample(Config.data_parallel(32, n), epoch_seconds=10 + 90 / n) for n in (1, 2, 8)]
    model = Amdahl().fit_seconds(JOB, samples)
    assert model.predict(Configs.of([Config.data_parallel(32, 4)])) == pytest.approx([10 + 90 / 4])


@settings(max_examples=40, deadline=None)
@given(st.floats(0.02, 2), st.floats(0.3, 3), st.floats(0, 1), st.integers(6, 40))
def test_a_loss_curve_without_noise_is_found_again(b0: float, b1: float, b2: float, count: int) -> None:
    epochs = np.arange(1.0, count + 1)
    losses = 1 / (b0 * epochs + b1) + b2
    found = fit_loss(epochs, losses)
    np.testing.assert_allclose(found.loss(epochs), losses, rtol=2e-3)
    assert found.explained > 0.99


def test_a_noisy_curve_is_fitted_as_well_as_a_general_solver_does() -> None:
    rng = np.random.default_rng(0)
    epochs = np.arange(1.0, 31)
    losses = 1 / (0.3 * epochs + 0.5) + 0.2 + 0.02 * rng.normal(size=30)
    weights = np.repeat([1.0, 4.0, 16.0], 10)
    found = fit_loss(epochs, losses)
    ours = float((weights * (found.loss(epochs) - losses) ** 2).sum())
    general = least_squares(
        lambda b: np.sqrt(weights) * (1 / (b[0] * epochs + b[1]) + b[2] - losses), (0.3, 0.5, 0.2), bounds=(0, np.inf)
    )
    assert ours <= 2 * general.cost * 1.01


def test_refitted_as_points_come_the_end_settles() -> None:
    epochs = np.arange(1.0, 41)
    losses = 1 / (0.2 * epochs + 0.4) + 0.3 + 0.003 * np.random.default_rng(1).normal(size=40)
    found = [fit_loss(epochs[:seen], losses[:seen]).converges().epoch for seen in range(10, 41)]
    assert None not in found
    assert max(found[-10:]) - min(found[-10:]) <= 1  # type: ignore[type-var, operator]


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([1.0, 0.8], "2 came so far"),
        ([1.0, 1.1, 1.2, 1.3, 1.4], "the loss does not get better"),
        ([1.0, 0.3, 0.9, 0.35, 0.95, 0.4, 0.85, 0.3], "not smooth"),
    ],
)
def test_a_curve_that_says_nothing_is_said_to(losses: list[float], words: str) -> None:
    curve = fit_loss(np.arange(1.0, len(losses) + 1), np.array(losses))
    for verdict in (curve.converges(), curve.reaches(0.1)):
        assert verdict.epoch is None
        assert words in verdict.reason


def test_a_target_below_the_plateau_is_never_reached_and_a_slow_curve_is_given_up() -> None:
    epochs = np.arange(1.0, 31)
    assert "never gets" in fit_loss(epochs, 1 / (0.5 * epochs + 0.5) + 0.4).reaches(0.3).reason
    slow = fit_loss(epochs, 1 / (0.02 * epochs + 1))
    assert slow.converges(most=5).epoch is None
    assert slow.converges().epoch == pytest.approx(47, abs=1)


def test_a_run_under_way_is_told_when_it_will_meet_its_target() -> None:
    def run(upto: int) -> Sample:
        curve = tuple(Evaluation(e, 0.95 - 1 / (0.5 * e + 1.5), 0.0) for e in range(1, upto + 1))
        return Sample(Config.data_parallel(32, 1), float(upto), curve=curve)

    target = 0.95 - 1 / (0.5 * 20 + 1.5)
    assert epochs_to(JOB, run(8), target).epoch == pytest.approx(20, rel=0.05)
    assert epochs_to(JOB, run(0), target).epoch is None
    worse = replace(run(8), curve=tuple(replace(point, accuracy=0.9 - point.accuracy) for point in run(8).curve))
    assert epochs_to(JOB, worse, 0.99).reason == "accuracy does not get better"
    assert "never gets" in epochs_to(JOB, run(12), 0.99).reason
    assert epochs_to(Job("loss", better="lower"), run(2), 0.1).epoch is None


def test_a_spoilt_evaluation_does_not_move_the_end_of_a_run() -> None:
    def run(spoilt: tuple[int, ...] = ()) -> Sample:
        scores = [0.1 if e in spoilt else 0.95 - 1 / (0.5 * e + 1.5) for e in range(1, 13)]
        curve = tuple(Evaluation(e, score, 0.0) for e, score in enumerate(scores, start=1))
        return Sample(Config.data_parallel(32, 1), 12.0, curve=curve)

    target = 0.95 - 1 / (0.5 * 20 + 1.5)
    clean, spoilt = epochs_to(JOB, run(), target), epochs_to(JOB, run((8,)), target)
    assert clean.epoch == pytest.approx(20, rel=0.05)
    assert spoilt.epoch == pytest.approx(clean.epoch, rel=0.05)
    steps = round((clean.epoch or 0) * EXAMPLES / 32)
    assert clean.reason.endswith(f"gets to the target, after {steps:,} steps")
    assert "steps" not in epochs_to(replace(JOB, examples=None), run(), target).reason


@given(st.lists(st.floats(0, 1), min_size=0, max_size=30))
def test_no_point_of_a_falling_loss_is_an_outlier_and_the_ends_always_stay(losses: list[float]) -> None:
    assert without_outliers(np.array(sorted(losses, reverse=True))).all()
    kept = without_outliers(np.array(losses))
    assert kept[:2].all()
    assert kept[-2:].all()


def test_accuracy_at_another_batch_is_that_of_the_nearest_one() -> None:
    def sample(batch: int, pace: float) -> Sample:
        curve = tuple(Evaluation(e, 0.9 - 1 / (pace * e + 1.2), 0.0) for e in range(1, 16))
        return Sample(Config.data_parallel(batch, 1), 15.0, curve=curve)

    model = Optimus().fit_accuracy(JOB, [sample(16, 1.0), sample(256, 0.3)])
    found = model.predict(Configs.of([Config.data_parallel(b, 1) for b in (16, 20, 200, 256)]), np.array([5.0, 30.0]))
    np.testing.assert_allclose(found[0], 0.9 - 1 / (np.array([5.0, 30.0]) + 1.2), atol=0.01)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2], found[3])


def test_a_forecast_by_optimus_tells_when_its_curves_have_converged_or_why_not() -> None:
    def sample(batch: int, scores: list[float]) -> Sample:
        curve = tuple(Evaluation(e, score, 0.0) for e, score in enumerate(scores, start=1))
        return Sample(Config.data_parallel(batch, 1), float(len(scores)), 1.0, curve=curve)

    def reason(*samples: Sample) -> str:
        return forecaster(JOB, samples, Cluster(), predictor="eta", accuracy="optimus").reason[-1]

    quick, slow = (sample(b, [0.9 - 1 / (pace * e + 1.2) for e in range(1, 16)]) for b, pace in ((16, 1.0), (64, 0.3)))
    rough = sample(256, [0.1, 0.7, 0.1, 0.65, 0.05, 0.6, 0.15, 0.7])
    assert reason(quick).endswith("its accuracy has converged after 14 epochs")
    assert reason(quick, slow).endswith("its accuracy has converged after 14 to 21 epochs")
    assert "at batch 256 accuracy is not smooth" in reason(rough)
    assert "14 to 21 epochs; at batch 256 accuracy is not smooth" in reason(quick, slow, rough)


def test_samples_without_servers_are_still_fitted() -> None:
    samples = timed(lambda batch, workers: 0.01 + 0.001 * batch + 0.002 * workers, [(8, 1), (16, 2), (32, 4), (64, 8)])
    model = Optimus().fit_seconds(JOB, samples)
    predicted = model.predict(Configs.of([sample.config for sample in samples]))
    np.testing.assert_allclose(predicted, [sample.epoch_seconds for sample in samples], rtol=1e-6)
