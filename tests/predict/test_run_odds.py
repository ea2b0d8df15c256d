"""The odds of a run under way follow what it shows, and not what was planned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.forecast import Learning
from cotune.predict.annealing import Annealing
from cotune.predict.run_odds import RunClock, RunLaw
from cotune.types import Floats

CAP = 60
TARGET = 0.85  # which the law meets at epoch 18


def _value(epochs: Floats | float) -> Floats:
    return np.asarray(0.95 - 0.6 * (np.asarray(epochs) / 1.5 + 1) ** -0.7)


def _law(annealing: Annealing | None = None) -> RunLaw:
    row = _value(np.arange(1.0, CAP + 1))[None, :]
    flat = np.full_like(row, 0.01)
    learning = Learning(
        recipe=np.zeros(1, dtype=np.int64),
        best=row,
        spread=flat,
        fall=flat,
        evaluation=row,
        evaluation_spread=flat,
        source=np.array(["measured"], dtype=object),
        told=np.array([float(CAP)]),
        way=annealing.way if annealing else None,
    )
    return RunLaw(learning, float(CAP), TARGET, 0.1)


def _run(done: int, slower: float) -> list[tuple[float, float]]:
    return [(float(epoch), float(_value(epoch / slower))) for epoch in range(1, done + 1)]


@pytest.mark.parametrize("slower", [1.0, 2.0, 3.0])
def test_a_run_is_expected_to_end_as_its_own_evaluations_say(slower: float) -> None:
    end = _law().believe(_run(10, slower), 10.0).end(CAP)
    assert end.low <= 18 * slower * 1.1
    assert end.mid == pytest.approx(18 * slower, rel=0.25)


def test_a_run_that_learns_as_forecast_keeps_its_odds_and_a_slow_one_loses_them() -> None:
    clock = RunClock(spent=10.0, epoch_seconds=1.0, deadline=24.0)
    assert _law().believe(_run(10, 1.0), 10.0).odds(clock) > 0.9
    assert _law().believe(_run(10, 3.0), 10.0).odds(clock) < 0.1


@pytest.mark.parametrize("slower", [1.0, 1.5, 3.0])
def test_a_first_evaluation_on_the_steep_part_tells_of_pace_and_not_of_a_level_that_stays(slower: float) -> None:
    """A run at 40 % after an epoch, 60 being expected, was told P(met) 0.00 and met its target five epochs later."""
    believed = _law().believe(_run(1, slower), 1.0)
    assert believed.odds(RunClock(0.0, 1.0, None)) > 0.8


def test_a_target_beyond_the_cap_is_not_expected() -> None:
    believed = _law().believe(_run(20, 8.0), 20.0)
    assert believed.odds(RunClock(0.0, 1.0, None)) < 0.2
    assert np.isinf(believed.quantile(0.9))


def test_a_run_whose_rate_is_still_to_fall_is_not_thought_slow() -> None:
    annealing = Annealing("cosine", 0.1)
    worth, below = annealing.way(CAP, np.arange(1.0, 21.0))
    shown = [(float(e), float(v)) for e, v in zip(range(1, 21), _value(worth) - below, strict=True)]
    believed = _law(annealing).believe(shown, 20.0)
    assert believed.odds(RunClock(0.0, 1.0, None)) > 0.9
    assert believed.end(CAP).mid > 25


@given(st.integers(1, 30), st.floats(0.5, 5.0), st.floats(1.0, 200.0), st.floats(1.0, 100.0))
def test_a_later_deadline_never_lowers_the_odds(done: int, slower: float, deadline: float, more: float) -> None:
    believed = _law().believe(_run(done, slower), float(done))
    odds = [believed.odds(RunClock(float(done), 1.0, end)) for end in (deadline, deadline + more)]
    assert 0 <= odds[0] <= odds[1] < 1


def test_a_run_ends_at_an_evaluation_and_not_before() -> None:
    """A run that is evaluated each fourth epoch was told to end within a part of the next one."""
    curve = [(epoch, float(_value(epoch))) for epoch in (4.0, 8.0, 12.0, 16.0)]
    believed = _law().believe(curve, 16.5)
    assert believed.end(CAP).low == 20.0
    able = believed.needed[np.isfinite(believed.needed)]
    assert np.all((able % 4 == 0) | (able == CAP))


def test_a_run_that_has_fallen_for_long_is_not_expected_to_meet_its_target() -> None:
    """One that overfitted from epoch 19 on was told P(met) 0.99 for twenty epochs more."""
    best = [min(float(_value(epoch)), 0.80) for epoch in range(1, 13)]
    curve = [(float(epoch), value) for epoch, value in enumerate([*best, *np.linspace(0.79, 0.70, 18)], start=1)]
    clock = RunClock(0.0, 1.0, None)
    odds = [_law().believe(curve[:count], float(count)).odds(clock) for count in (10, 20, 30)]
    assert odds[0] > 0.9
    assert odds[2] <= odds[1] < 0.5
    assert odds[2] < 0.1


@pytest.mark.parametrize(("evaluations", "least", "most"), [(1, 0.0, 0.5), (4, 0.0, 0.9)])
def test_a_run_that_hovers_below_its_target_is_not_sure_of_its_next_evaluation(
    evaluations: int, least: float, most: float
) -> None:
    rng = np.random.default_rng(0)
    hovering = [(float(epoch), TARGET - 0.01 + 0.008 * float(rng.normal())) for epoch in range(19, 33)]
    curve = [*_run(18, 1.0), *((epoch, min(value, TARGET - 0.001)) for epoch, value in hovering)]
    odds = _law().believe(curve, 32.0).odds(RunClock(32.0, 1.0, 32.0 + evaluations + 0.2))
    assert least <= odds < most


def test_the_end_that_is_told_is_in_time_as_often_as_the_odds_say() -> None:
    believed = _law().believe(_run(10, 1.0), 10.0)
    end = believed.end(CAP)
    assert believed.odds(RunClock(10.0, 1.0, end.high * 1.2)) >= 0.9
    assert believed.odds(RunClock(10.0, 1.0, end.low * 0.8)) <= 0.1
