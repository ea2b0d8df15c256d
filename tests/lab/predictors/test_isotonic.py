from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune.lab.predictors.isotonic import Isotonic, monotone, pava, squared_errors, weights
from cotune.space import Configs
from cotune.types import Config
from predict.worlds import JOB, grid, plain_step, timed, trained

VALUES = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40)


@st.composite
def weighted(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    y = draw(VALUES)
    return np.array(y), np.array(draw(st.lists(st.floats(0.01, 100), min_size=len(y), max_size=len(y))))


@settings(deadline=None)
@given(weighted())
def test_the_errors_of_all_pieces_are_those_of_the_pieces_fitted(case: tuple[np.ndarray, np.ndarray]) -> None:
    y, shares = case
    fitted = [pava(y[:count], shares[:count]) for count in range(len(y) + 1)]
    left = [float(shares[: len(fit)] @ (y[: len(fit)] - fit) ** 2) for fit in fitted]
    np.testing.assert_allclose(squared_errors(y, shares), left, rtol=1e-6, atol=1e-4)


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_a_peak_is_the_nearest_of_all_hills(y: list[int]) -> None:
    """Against brute force: with whole targets no better hill lies on a grid of halves."""
    fit = monotone(np.arange(len(y), dtype=float), np.array(y, dtype=float), "peak").y
    found = float(((fit - y) ** 2).sum())
    assert found <= ((_hills(len(y)) - y) ** 2).sum(axis=1).min() + 1e-9
    assert _is_hill(tuple(fit))


@cache
def _hills(length: int) -> np.ndarray:
    levels = np.arange(0, 4.5, 0.5 if length < 5 else 1.0)
    return np.array([hill for hill in itertools.product(levels, repeat=length) if _is_hill(hill)])


def _is_hill(values: tuple[float, ...]) -> bool:
    signs = [after > before for before, after in itertools.pairwise(values) if abs(after - before) > 1e-9]
    return signs == sorted(signs, reverse=True)


def test_algorithm_1_gives_the_weights_computed_by_hand() -> None:
    """H(t) = 2 bits; b tells 1 bit of it and r both: M = 1/2 and 2/3, so w = 3/7 and 4/7."""
    target = np.array([0.0, 1.0, 2.0, 3.0])
    factors = np.array([[1.0, 1.0, 2.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
    np.testing.assert_allclose(weights(factors, target, bins=4), [3 / 7, 4 / 7])


def test_a_factor_that_never_moves_has_no_weight() -> None:
    target = np.array([0.0, 1.0, 2.0, 3.0])
    factors = np.array([[1.0, 2.0, 3.0, 4.0], [8.0, 8.0, 8.0, 8.0]])
    np.testing.assert_allclose(weights(factors, target, bins=4), [1.0, 0.0])
    np.testing.assert_allclose(weights(factors[1:].repeat(2, axis=0), target, bins=4), [0.5, 0.5])


@pytest.mark.parametrize("binning", ["width", "rank"])
def test_weights_sum_to_one(binning: str) -> None:
    rng = np.random.default_rng(0)
    assert weights(rng.random((2, 30)), rng.random(30), 8, binning).sum() == pytest.approx(1.0)


def test_slices_follow_a_full_grid_more_closely_than_pooled_curves() -> None:
    samples = timed(plain_step, grid())
    configs = Configs.of([sample.config for sample in samples])
    truth = np.array([sample.epoch_seconds for sample in samples])
    sliced = Isotonic(reading="sliced").fit_seconds(JOB, samples).predict(configs)
    pooled = Isotonic(reading="pooled").fit_seconds(JOB, samples).predict(configs)
    np.testing.assert_allclose(sliced, truth, rtol=1e-9)
    assert np.abs(pooled / truth - 1).mean() > 0.2


def test_seconds_fall_with_workers_and_accuracy_rises_with_epochs() -> None:
    model = Isotonic().fit_seconds(JOB, timed(plain_step, grid()))
    assert np.all(np.diff(model.predict(Configs.of([Config.data_parallel(32, n) for n in range(1, 9)]))) <= 1e-9)
    curve = Isotonic().fit_accuracy(JOB, trained([16, 64, 256], noise=0.01))
    assert np.all(np.diff(curve.predict(Configs.of([Config.data_parallel(64, 1)]), np.arange(1.0, 21))) >= -1e-9)


def test_the_papers_own_batch_is_that_of_a_worker() -> None:
    configs = Configs.of([Config.data_parallel(64, 1), Config.data_parallel(64, 4)])
    epochs = np.array([5.0])
    samples = trained([16, 64, 256])
    by_worker = Isotonic(batch="worker").fit_accuracy(JOB, samples).predict(configs, epochs)
    by_global = Isotonic(batch="global").fit_accuracy(JOB, samples).predict(configs, epochs)
    assert by_worker[0] == by_worker[1]
    assert by_global[0] != by_global[1]
