from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.training_speed import Mark, shares, speed


def marks(pace: float, startup: float, up: float, epochs: list[float]) -> list[Mark]:
    return [Mark(epoch, up + startup + epoch * pace) for epoch in epochs]


@given(
    pace=st.floats(0.01, 1e4),
    startup=st.floats(0, 100),
    up=st.floats(0, 10),
    steps=st.lists(st.floats(0.01, 1), min_size=2, max_size=40),
)
def test_a_steady_run_gives_its_own_pace_and_start(pace: float, startup: float, up: float, steps: list[float]) -> None:
    epochs = [sum(steps[: count + 1]) for count in range(len(steps))]
    found, begun = speed(marks(pace, startup, up, epochs), up)
    assert found == pytest.approx(pace, rel=1e-6)
    assert begun == pytest.approx(startup, rel=1e-6, abs=1e-6 * (pace * epochs[0] + up + 1))


def test_the_first_part_is_dropped_because_it_pays_for_caching() -> None:
    slow_start = [Mark(0.0, 1.0), Mark(0.1, 3.0), Mark(0.2, 3.2), Mark(0.3, 3.3), Mark(0.4, 3.4), Mark(0.5, 3.5)]
    assert speed(slow_start, 0.5)[0] == pytest.approx(1.0)


def test_one_stall_does_not_change_the_pace() -> None:
    told = marks(2.0, 0.0, 0.0, [0.1 * step for step in range(1, 31)])
    stalled = [mark if mark.epoch < 1.5 else Mark(mark.epoch, mark.training + 60) for mark in told]
    assert speed(stalled, 0.0)[0] == pytest.approx(2.0)


def test_of_reports_that_were_read_together_the_last_tells_the_time() -> None:
    together = [Mark(1.0, 5.0), Mark(2.0, 5.0), Mark(3.0, 5.0), Mark(4.0, 5.3)]
    assert speed(together, 1.0) == (pytest.approx(0.3), pytest.approx(3.1))
    assert speed(together[:3], 1.0) == (pytest.approx(4 / 3), 0.0)


@pytest.mark.parametrize("pace", [0.003, 0.011, 0.014, 0.02, 0.03])
def test_epochs_as_quick_as_lines_are_read_give_their_own_pace(pace: float) -> None:
    """Epochs of 14 ms whose lines are read every 20 ms were told as 20 ms."""
    times = [3.0 + pace * epoch for epoch in range(1, 101)]
    read = [Mark(epoch, 0.02 * math.ceil(time / 0.02)) for epoch, time in enumerate(times, 1)]
    assert speed(read, 0.0)[0] == pytest.approx(pace, rel=0.35)


def test_a_single_report_is_all_there_is() -> None:
    assert speed([Mark(1.0, 12.0)], 2.0) == (10.0, 0.0)
    assert speed([Mark(0.0, 12.0)], 2.0) == (None, None)
    assert speed([], 2.0) == (None, None)


def test_the_parts_of_an_epoch_leave_out_what_the_first_steps_took_longer() -> None:
    slow = [Mark(0.1, 9.0, {"compute": 8.0}), Mark(0.2, 9.1, {"compute": 8.1, "input": 0.01})]
    assert shares(slow[:1]) == {"compute": pytest.approx(80.0)}
    assert shares(slow) == {"compute": pytest.approx(1.0), "input": pytest.approx(0.1)}
    assert shares([*slow, Mark(0.8, 9.7, {"compute": 8.7, "input": 0.07})])["compute"] == pytest.approx(1.0)
    assert shares([]) == shares([Mark(0.0, 1.0, {"compute": 1.0})]) == {}
