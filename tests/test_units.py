from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.errors import UsageError
from cotune.units import counted, duration, number, seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90),
        (90, 90),
        ("90s", 90),
        ("45m", 2700),
        ("1h30m", 5400),
        ("4h", 14400),
        ("2d", 172800),
        ("500ms", 0.5),
        ("PT4H", 14400),
        ("P1DT12H", 129600),
        ("PT1M30.5S", 90.5),
        ("1-12:00:00", 129600),
        ("01:30:00", 5400),
        ("10:30", 630),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "-5", "0", "5 parsecs", "nan", "inf", "P", "PT"])
def test_what_is_no_positive_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        seconds(text)


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5 s"), (59, "59 s"), (61, "1 min 01 s"), (7300, "2 h 01 min"), (200000, "2 d 7 h")]
)
def test_durations_are_shown_with_the_digits_they_deserve(value: float, text: str) -> None:
    assert duration(value) == text


@given(st.floats(1e-3, 1e9))
def test_a_shown_number_is_within_its_digits_of_the_value(value: float) -> None:
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=1e-3)


def test_one_of_something_is_no_plural() -> None:
    assert [counted(1, "epoch"), counted(2.0, "epoch"), counted(0.25, "epoch")] == [
        "1 epoch",
        "2 epochs",
        "0.25 epochs",
    ]
    assert counted(123456, "feasible config") == "123456 feasible configs"
