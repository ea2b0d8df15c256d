"""Which config a run should go on with, by definition and as properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.plan.moving import MovingConstants, prospects
from cotune.types import Floats

KNOWN = MovingConstants(learnt=0.5, penalty=5.0, whole=0.0)
PACE, RATE = np.array([8.0, 5.0, 3.0]), np.array([1.0, 2.0, 4.0])  # the quicker the dearer


def score_of(epochs: float, time_left: float, begin: Floats | None = None) -> Floats:
    left = np.full((1, 3), epochs)
    start = np.zeros(3) if begin is None else begin
    return prospects(np.ones(1), left, PACE, RATE, time_left=time_left, begin=start, constants=KNOWN).score


@pytest.mark.parametrize(("time_left", "best"), [(100.0, 0), (60.0, 1), (35.0, 2)])
def test_what_is_known_is_done_by_the_cheapest_config_that_comes_in_time(time_left: float, best: int) -> None:
    found = prospects(
        np.ones(1), np.full((1, 3), 10.0), PACE, RATE, time_left=time_left, begin=np.zeros(3), constants=KNOWN
    )
    assert int(np.argmax(found.stays)) == best
    assert found.stays[best] == 1.0


def test_a_slow_beginning_is_worth_it_only_while_a_quick_end_can_make_up() -> None:
    # 10 epochs in 60 s: half of them at 8 s leaves 20 s for the rest at 3 s: 40 + 15.
    assert score_of(10.0, 60.0)[0] < KNOWN.penalty
    assert score_of(10.0, 54.0)[0] > KNOWN.penalty


def test_a_run_cannot_change_before_its_next_evaluation() -> None:
    left = np.full((1, 3), 2.0)  # epochs: 16 s, 10 s or 6 s; half of it at 8 s leaves 4 s, and 3 s are needed
    often, seldom = (
        prospects(np.ones(1), left, PACE, RATE, time_left=12.0, begin=np.zeros(3), step=step, constants=KNOWN)
        for step in (1.0, 2.0)
    )
    assert often.odds.tolist() == [1.0, 1.0, 1.0]
    assert seldom.odds.tolist() == [0.0, 1.0, 1.0]
    assert seldom.odds.tolist() == seldom.stays.tolist()


def test_what_a_move_takes_counts_as_seconds_and_as_cost() -> None:
    at_once, later = score_of(10.0, 200.0), score_of(10.0, 200.0, np.array([0.0, 7.0, 7.0]))
    assert at_once[0] == later[0]
    assert later[1] == pytest.approx(at_once[1] + 7.0 * 2 / 80)


def test_what_can_be_saved_counts_for_less_beside_what_was_paid() -> None:
    left = np.full((1, 3), 10.0)
    new, paid = (
        prospects(np.ones(1), left, PACE, RATE, time_left=200.0, begin=np.zeros(3), sunk=sunk, constants=KNOWN).score
        for sunk in (0.0, 80.0)
    )
    assert new[1] - new[0] == pytest.approx(0.125)  # half of the rest may still go the cheapest way
    assert paid[1] - paid[0] == pytest.approx(0.0625)


@given(
    st.lists(st.floats(0.5, 100, width=32), min_size=1, max_size=6),
    st.floats(1, 500),
    st.floats(1, 3),
)
def test_more_time_never_lowers_the_odds(epochs: list[float], time_left: float, more: float) -> None:
    weights = np.full(len(epochs), 1 / len(epochs))
    left = np.repeat(np.array(epochs, dtype=np.float64)[:, None], 3, axis=1)
    short, long = (
        prospects(weights, left, PACE, RATE, time_left=time, begin=np.zeros(3))
        for time in (time_left, more * time_left)
    )
    assert np.all(long.odds >= short.odds - 1e-12)
    assert np.all(short.odds >= short.stays - 1e-12)
    assert np.all(np.isfinite(short.score))


def test_a_config_that_never_gets_there_is_late_whatever_time_there_is() -> None:
    left = np.array([[np.inf, 10.0, 10.0]])
    found = prospects(np.ones(1), left, PACE, RATE, time_left=1000.0, begin=np.zeros(3))
    assert found.stays.tolist() == [0.0, 1.0, 1.0]
    assert np.isfinite(found.score).all()
