"""What is shown of long work tells one clock, also where it goes on from earlier work."""

from __future__ import annotations

import pytest

from cotune.display import Terminal


def test_lines_count_the_seconds_that_came_before(capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal().progress(10.0, 6.5) as shown:
        shown.update(1.0, "epoch 1")
    told = float(capsys.readouterr().err.split(" s]")[0].removeprefix("["))
    assert 6.5 <= told < 16.5
