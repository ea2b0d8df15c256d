"""Rule 6 of replay: where a run lands that moves, as properties and by examples computed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.errors import InvalidFile
from cotune.recording import read
from cotune.recording.moving import accuracy_after, epochs_of_way, landing, move_seconds
from cotune.types import Floats
from recording.folders import JOB, recording

values = st.floats(0.0, 1.0, width=32)
curves = st.lists(values, min_size=1, max_size=12).map(lambda found: np.array(found, dtype=np.float64))
rising = st.lists(st.floats(2**-7, 0.25, width=32), min_size=2, max_size=12).map(
    lambda steps: np.cumsum(np.array(steps, dtype=np.float64))
)
shares = st.floats(0.0, 1.0)


@given(curves, curves, shares, values)
def test_a_move_never_lands_further_than_the_same_share_of_the_way(
    old: Floats, new: Floats, share: float, level: float
) -> None:
    done = share * epochs_of_way(old, level)
    there = landing(old, new, done, level)
    assert 0 <= there <= share * epochs_of_way(new, level) + 1e-9


@given(rising, shares, values)
def test_a_run_that_moves_to_a_curve_like_its_own_stays_where_it_was(curve: Floats, share: float, level: float) -> None:
    done = share * epochs_of_way(curve, level)
    assert landing(curve, curve.copy(), done, level) == pytest.approx(done)


@given(rising, rising, shares, values)
def test_a_move_never_makes_a_run_more_accurate(old: Floats, new: Floats, share: float, level: float) -> None:
    done = share * epochs_of_way(old, level)
    had, has = accuracy_after(old, done), accuracy_after(new, landing(old, new, done, level))
    if had is not None and has is not None and had >= new[0]:  # what comes before the first point is not known
        assert has <= had + 1e-6


@given(rising, rising, shares, values)
def test_going_there_and_back_gains_nothing(old: Floats, new: Floats, share: float, level: float) -> None:
    done = max(1.0, share * epochs_of_way(old, level))
    back = landing(new, old, landing(old, new, done, level), level)
    assert back <= done + 1e-6


def test_a_run_lands_between_two_points_of_the_new_curve() -> None:
    old, new = np.array([0.1, 0.3, 0.5, 0.9]), np.array([0.1, 0.2, 0.4, 0.6, 0.8, 0.9])
    # 0.3 lies half way between epochs 2 and 3; the share is 2 of 4, of 6 epochs: 3.
    assert landing(old, new, 2.0, 0.9) == pytest.approx(2.5)


def test_a_drop_of_the_rate_is_not_jumped_over() -> None:
    old, new = np.array([0.1, 0.5, 0.6, 0.7, 0.8]), np.array([0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.7, 0.75, 0.8])
    # The new curve has 0.5 only behind its drop, at 7.6; two fifths of the way of ten epochs are four.
    assert landing(old, new, 2.0, 0.8) == pytest.approx(4.0)


def test_where_the_target_is_never_met_the_length_of_the_curve_is_the_way() -> None:
    old, new = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.9])
    assert landing(old, new, 1.5, 0.9) == pytest.approx(1.5 / 4 * 8)
    assert landing(old, new[:6], 3.0, 0.9) == pytest.approx(3 / 4 * 6)  # it never has 0.3


def test_a_move_costs_a_tenth_of_an_epoch_unless_the_recording_tells(tmp_path: Path) -> None:
    plain = read(recording(tmp_path / "plain"))
    told = read(recording(tmp_path / "told", job=f"{JOB}restart_seconds: 7\n"))
    assert move_seconds(plain, 40.0) == pytest.approx(4.0)
    assert move_seconds(told, 40.0) == 7.0


@pytest.mark.parametrize("wrong", ["-1", "soon", ".inf", "true"])
def test_restart_seconds_that_are_none_are_refused_with_their_line(tmp_path: Path, wrong: str) -> None:
    folder = recording(tmp_path / "wrong", job=f"{JOB}restart_seconds: {wrong}\n")
    with pytest.raises(InvalidFile, match=r"job\.yaml:6: restart_seconds: expected the seconds"):
        read(folder)
