from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotune.modelling.layouts.choosing import choose, next_to_measure, scores
from cotune.modelling.layouts.fitted_law import SECONDS, FittedLaw
from cotune.modelling.layouts.fitting import LogPrior
from cotune.modelling.layouts.layout import LayoutRows
from cotune.modelling.layouts.predictor import LayoutLearner
from cotune.modelling.layouts.residual import POINT_AXES, Residuals, points_of
from modelling.layouts.settings import H100, LARGE, SMALL, lawful_rows

NOTHING = np.zeros(0, dtype=np.int64)


def test_the_process_goes_through_its_rows_and_knows_nothing_far_away() -> None:
    rng = np.random.default_rng(0)
    points, misses = rng.normal(size=(12, POINT_AXES)), rng.normal(0, 0.12, size=12)
    process = Residuals(np.log([0.12, 0.03, 1.0]), points[:8], misses[:8], np.ones(8))
    mean, variance = process.and_then(points[8:], misses[8:], np.ones(4)).expected(points)
    assert np.allclose(mean, misses, atol=0.03)
    far, doubt = process.expected(points + 1000)
    assert np.allclose(far, 0)
    assert np.all(variance < doubt)


def test_stalls_are_expected_where_all_runs_stall_and_make_the_upper_tail_long_where_few_do() -> None:
    rng = np.random.default_rng(0)
    points = np.zeros((200, POINT_AXES))
    points[:100, 0] = 50.0  # far from the others
    misses = rng.normal(0, 0.03, size=200)
    misses[:100] += 1.0
    misses[100:] += 0.4 * (rng.random(100) < 0.2)
    process = Residuals.fit(points, misses, SECONDS.loss)
    assert np.allclose(process.expected(points[[0, 199]])[0], [1.0, 0.0], atol=0.05)
    low, high = (process.tail(points[[0, 199]], side) for side in (-1, 1))
    assert np.all(low > 0)
    assert high[1] > 3 * high[0] > 0


def test_what_a_cluster_loses_that_no_law_counts_is_learnt_from_rows_of_another_model() -> None:
    def waiting(rows: LayoutRows) -> LayoutRows:
        pipelines = (rows.layouts.pp > 1) & (rows.layouts.gpus > H100.per_node)
        return replace(rows, seconds=rows.seconds * np.where(pipelines, 1.1, 1.0))

    rows = waiting(lawful_rows(LARGE))
    spread = rows.ran & (rows.layouts.pp > 1) & (rows.layouts.gpus > H100.per_node)
    errors = []
    for other in (lawful_rows(SMALL), waiting(lawful_rows(SMALL))):
        expected = LayoutLearner([other]).fit(rows.take(NOTHING)).predict(rows.layouts).seconds[:, 1]
        errors.append(np.median(np.abs(expected / rows.seconds - 1)[spread]))
    assert errors[1] < 0.7 * errors[0]


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
    points = points_of(rows.layouts, rows.setting)
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


def test_one_fit_predicts_two_models_at_once() -> None:
    parts = [lawful_rows(SMALL, factor=1.4), lawful_rows(LARGE, factor=1.4)]
    ran = [rows.take(rows.ran) for rows in parts]
    few = [rows.take(np.arange(0, len(rows.layouts), 12)) for rows in ran]
    fitted = FittedLaw.fit(SECONDS, few, LogPrior.of(SECONDS.coefficients))
    for rows in ran:
        predicted = fitted.predict(rows.layouts, rows.setting)
        assert np.median(np.abs(predicted[:, 1] / rows.seconds - 1)) < 0.03
