from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotune.modelling.layouts.choosing import choose, next_to_measure, scores
from cotune.modelling.layouts.crashes import CRASH, TriedLayouts, crash_shares
from cotune.modelling.layouts.pooled import PooledSteps
from cotune.modelling.layouts.predictor import LayoutLearner
from cotune.modelling.layouts.residual import (
    OF_SECONDS,
    LearntFrom,
    OtherModels,
    ResidualConstants,
    Residuals,
    alike,
    features,
)
from modelling.layouts.settings import H100, LARGE, SMALL, lawful_rows

NOTHING = np.zeros(0, dtype=np.int64)


def test_a_process_with_own_rows_added_is_that_of_all_rows_at_once() -> None:
    rng = np.random.default_rng(0)
    constants = ResidualConstants()
    points, own, asked = (rng.normal(size=(count, 7)) for count in (12, 3, 5))
    others = LearntFrom(points, rng.normal(size=12), rng.uniform(0.3, 1, 12), rng.integers(0, 2, 12))
    mine = LearntFrom(own, rng.normal(size=3), rng.uniform(0.3, 1, 3))
    mean, deviation = Residuals(OtherModels(others, constants), mine).expected(asked)

    together, models = np.concatenate([points, own]), np.concatenate([others.models, [7, 7, 7]])
    same = np.where(models[:, None] == models[None, :], 1.0, constants.other_model)
    covariance = constants.amplitude**2 * alike(together, together) * same
    covariance += np.diag(np.concatenate([others.noise(constants), mine.noise(constants)]))
    shared = constants.amplitude**2 * alike(asked, together) * np.where(models == 7, 1.0, constants.other_model)
    solved = np.linalg.solve(covariance, shared.T)
    assert np.allclose(mean, solved.T @ np.concatenate([others.residuals, mine.residuals]))
    assert np.allclose(deviation**2, constants.amplitude**2 - np.sum(shared * solved.T, axis=1))


def test_a_model_is_predicted_from_another_of_the_same_law() -> None:
    rows = lawful_rows(LARGE, factor=1.3)
    predictor = LayoutLearner([lawful_rows(SMALL, factor=1.3)]).fit(rows.take(NOTHING))
    forecasts = predictor.predict(rows.layouts)
    assert np.median(np.abs(forecasts.seconds[rows.ran, 1] / rows.seconds[rows.ran] - 1)) < 0.08
    assert np.median(np.abs(forecasts.gib[rows.ran, 1] / rows.gib[rows.ran] - 1)) < 0.05
    assert np.mean(forecasts.p_fits[rows.ran] > 0.5) > 0.9
    assert np.mean(forecasts.p_fits[~rows.ran] < 0.5) > 0.9


def test_measured_layouts_bring_predictions_nearer() -> None:
    rows = lawful_rows(LARGE, factor=1.6)
    learner = LayoutLearner([lawful_rows(SMALL)])
    ran = np.flatnonzero(rows.ran)

    def error(places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
        seconds = learner.fit(rows.take(places)).predict(rows.layouts).seconds[ran, 1]
        return float(np.median(np.abs(seconds / rows.seconds[ran] - 1)))

    assert error(ran[::20]) < 0.5 * error(NOTHING)


def test_intervals_are_in_order_and_probabilities_are_such() -> None:
    rows = lawful_rows(LARGE)
    for learner in (LayoutLearner([]), LayoutLearner([lawful_rows(SMALL)])):
        forecasts = learner.fit(rows.take(NOTHING)).predict(rows.layouts)
        assert np.all(np.diff(forecasts.seconds, axis=1) >= 0)
        assert np.all(np.diff(forecasts.gib, axis=1) >= 0)
        assert np.all((forecasts.p_fits >= 0) & (forecasts.p_fits <= forecasts.p_memory))


def test_what_is_measured_next_was_not_tried_and_all_are_tried_in_the_end() -> None:
    rows = lawful_rows(SMALL, nodes=(1,))
    learner = LayoutLearner([])
    points = features(rows.layouts, H100.per_node, OF_SECONDS)
    forecasts = learner.fit(rows.take(NOTHING)).predict(rows.layouts)
    tried: list[int] = []
    while (place := next_to_measure(forecasts, rows.layouts, points, np.array(tried, dtype=np.int64))) is not None:
        assert place not in tried
        tried.append(place)
    assert len(tried) == len(rows.layouts)


def test_a_crashed_layout_is_never_chosen_and_nothing_is_where_nothing_should_run() -> None:
    rows = lawful_rows(SMALL, nodes=(1,))
    forecasts = LayoutLearner([]).fit(rows.take(NOTHING)).predict(rows.layouts)
    everywhere = np.ones(len(rows.layouts), dtype=bool)
    best = choose(scores(rows, forecasts, NOTHING), everywhere)
    assert best is not None
    crashed = replace(rows, seconds=np.full(len(rows.layouts), np.nan))
    assert choose(scores(crashed, forecasts, np.array([best])), everywhere) != best
    doomed = replace(forecasts, p_fits=np.full(len(rows.layouts), 0.1))
    assert choose(scores(rows, doomed, NOTHING), everywhere) is None


def test_own_crashes_that_memory_does_not_explain_count_against_their_kind_alone() -> None:
    nobody = TriedLayouts(NOTHING, NOTHING.astype(bool), np.zeros(0))
    own = TriedLayouts(np.array([2, 2, 2]), np.array([False, False, False]), np.ones(3))
    shares = crash_shares(own, nobody)
    assert shares[2] > 0.5
    assert shares[3] == CRASH.crash_share
    explained = TriedLayouts(own.kinds, own.ran, np.zeros(3))
    assert crash_shares(explained, nobody)[2] == CRASH.crash_share


def test_a_pooled_fit_predicts_two_models_at_once() -> None:
    parts = [lawful_rows(SMALL, factor=1.4), lawful_rows(LARGE, factor=1.4)]
    ran = [rows.take(rows.ran) for rows in parts]
    fitted = PooledSteps.fit([rows.take(np.arange(0, len(rows.layouts), 12)) for rows in ran])
    for rows in ran:
        predicted = fitted.predict(rows.layouts, rows.setting)
        assert np.median(np.abs(predicted[:, 1] / rows.seconds - 1)) < 0.03
