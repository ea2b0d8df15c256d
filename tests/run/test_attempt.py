from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.run.attempt import _Mark, speed


def marks(pace: float, startup: float, up: float, epochs: list[float]) -> list[_Mark]:
    return [_Mark(epoch, up + startup + epoch * pace) for epoch in epochs]


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
    slow_start = [_Mark(0.0, 1.0), _Mark(0.1, 3.0), _Mark(0.2, 3.2), _Mark(0.3, 3.3), _Mark(0.4, 3.4), _Mark(0.5, 3.5)]
    assert speed(slow_start, 0.5)[0] == pytest.approx(1.0)


def test_one_stall_does_not_change_the_pace() -> None:
    told = marks(2.0, 0.0, 0.0, [0.1 * step for step in range(1, 31)])
    stalled = [mark if mark.epoch < 1.5 else _Mark(mark.epoch, mark.training + 60) for mark in told]
    assert speed(stalled, 0.0)[0] == pytest.approx(2.0)


def test_a_single_report_is_all_there_is() -> None:
    assert speed([_Mark(1.0, 12.0)], 2.0) == (10.0, 0.0)
    assert speed([_Mark(0.0, 12.0)], 2.0) == (None, None)
    assert speed([], 2.0) == (None, None)
