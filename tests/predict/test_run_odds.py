"""The odds of a run under way follow what it shows, and not what was planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune.predict.run_odds import RunBelief, RunClock, believe, evaluations_to_come
from cotune.types import Config, Evaluation, Job, Sample

CAP = 60
TARGET = 0.85  # which the curve meets at epoch 18
CONFIG = Config.data_parallel(64, 1)
JOB = Job("digits", ("true",), examples=1000)
EVER = RunClock(0.0, 1.0, None)


def _sample(values: Sequence[float], gap: float = 1.0) -> Sample:
    curve = tuple(Evaluation(gap * place, float(value), gap * place) for place, value in enumerate(values, 1))
    return Sample(CONFIG, epochs=gap * len(values), curve=curve, length=CAP)


def _run(done: int, slower: float = 1.0, gap: float = 1.0, seed: int = 0) -> Sample:
    epochs = gap * np.arange(1.0, done + 1)
    scatter = 0.002 * np.random.default_rng(seed).normal(size=done)
    return _sample((0.95 - 0.6 * (epochs / slower / 1.5 + 1) ** -0.7 + scatter).tolist(), gap)


PROBE = _run(24, seed=1)


def _believed(run: Sample, others: Sequence[Sample] = (PROBE,), job: Job = JOB) -> RunBelief:
    return believe(job, others, run, target=TARGET, length=CAP)


def test_very_many_evaluations_to_come_are_thinned() -> None:
    later = evaluations_to_come((0.002, 0.004), 0.004, CAP)
    assert (later[-1], len(later)) == (CAP, 200)


@pytest.mark.parametrize("slower", [1.0, 2.0, 3.0])
def test_a_run_is_expected_to_end_as_its_own_evaluations_say(slower: float) -> None:
    end = _believed(_run(10, slower)).end(CAP)
    assert end.low <= 18 * slower * 1.1
    assert end.mid == pytest.approx(18 * slower, rel=0.25)


def test_a_run_that_learns_as_forecast_keeps_its_odds_and_a_slow_one_loses_them() -> None:
    odds = [_believed(_run(10, slower)).odds(RunClock(10.0, 1.0, 24.0)) for slower in (1.0, 3.0)]
    assert odds == [pytest.approx(1, abs=0.1), pytest.approx(0, abs=0.1)]


@pytest.mark.parametrize("slower", [1.0, 1.5, 3.0])
def test_a_first_evaluation_on_the_steep_part_tells_of_pace_and_not_of_a_level_that_stays(slower: float) -> None:
    assert _believed(_run(1, slower)).odds(EVER) > 0.8


def test_a_target_beyond_the_cap_is_not_expected() -> None:
    believed = _believed(_run(20, 8.0))
    assert believed.odds(EVER) < 0.2
    assert np.isinf(believed.quantile(0.9))
    assert _believed(_run(CAP, 8.0)).odds(EVER) == 0


def test_a_run_whose_rate_is_still_to_fall_is_not_thought_slow() -> None:
    job = replace(JOB, schedule="cosine")
    share = np.arange(1.0, CAP + 1) / CAP
    values = 0.95 - 0.6 * (CAP * share / 1.5 + 1) ** -0.7 - 0.02 * (1 + np.cos(np.pi * share))
    level = float(values[-8])
    probe, run = _sample(values.tolist()), _sample(values[:20].tolist())
    believed = believe(job, [probe], run, target=level, length=CAP)
    assert believed.odds(EVER) > 0.9
    assert believed.end(CAP).mid == pytest.approx(CAP - 7, abs=3)


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 30), st.floats(0.5, 5.0), st.floats(1.0, 200.0), st.floats(1.0, 100.0))
def test_a_later_deadline_never_lowers_the_odds(done: int, slower: float, deadline: float, more: float) -> None:
    believed = _believed(_run(done, slower))
    odds = [believed.odds(RunClock(float(done), 1.0, end)) for end in (deadline, deadline + more)]
    assert 0 <= odds[0] <= odds[1] <= 1


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(1, 14), st.floats(0.6, 1.6), st.floats(0.5, 1.0), st.integers(0, 1000))
def test_another_run_that_met_the_goal_no_later_than_predicted_does_not_lower_the_odds(
    done: int, slower: float, sooner: float, seed: int
) -> None:
    run = _run(done, slower, seed=seed)
    before = _believed(run)
    epochs = min(before.quantile(0.5), 18.0) * sooner
    success = _run(max(int(epochs), 1), epochs / 18, seed=seed + 1)
    clock = RunClock(run.epochs, 1.0, 36.0 * slower)
    assert _believed(run, (PROBE, success)).odds(clock) >= before.odds(clock) - 0.05


def test_a_run_ends_at_an_evaluation_and_not_before() -> None:
    believed = _believed(replace(_run(4, gap=4.0), epochs=16.5))
    assert believed.end(CAP).low == 20.0
    able = believed.needed[np.isfinite(believed.needed)]
    assert np.all((able % 4 == 0) | (able == CAP))


def test_a_run_that_has_fallen_for_long_is_not_expected_to_meet_its_target() -> None:
    best = [min(point.accuracy, 0.80) for point in _run(12).curve]
    values = [*best, *np.linspace(0.79, 0.70, 18)]
    odds = [_believed(_sample(values[:count])).odds(EVER) for count in (10, 20, 30)]
    assert odds[0] > 0.9 > odds[1]
    assert odds[2] < 0.1


def test_a_run_that_hovers_below_its_target_is_not_sure_of_its_next_evaluation() -> None:
    hovering = TARGET - 0.01 + 0.008 * np.random.default_rng(0).normal(size=14)
    shown = [point.accuracy for point in _run(18).curve] + hovering.tolist()
    assert _believed(_sample(np.minimum(shown, TARGET - 0.001).tolist())).odds(RunClock(32.0, 1.0, 33.2)) < 0.5
