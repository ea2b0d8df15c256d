from __future__ import annotations

import re
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from cotune.run.tail import from_log, from_report
from cotune.run.timed_search import TooSlow, search

EXPONENTIAL = re.compile(r"(?P<epoch>(\d+)+)x")


def test_a_pattern_that_backtracks_without_end_is_stopped_and_named() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TooSlow, match=r"takes more than 0.05 s on one line"):
        search(EXPONENTIAL, "1" * 60, seconds=0.05)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_ordinary_line_is_read_in_any_thread() -> None:
    pattern = re.compile(r"epoch (?P<epoch>\d+)")
    found = search(pattern, "epoch 3")
    assert found is not None
    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(search, pattern, "epoch 3").result()
    assert other is not None
    assert other["epoch"] == found["epoch"] == "3"


@pytest.mark.parametrize("epoch", ["inf", "nan", "1e999"])
def test_an_epoch_that_is_no_number_is_no_report(epoch: str) -> None:
    pattern = re.compile(r"epoch (?P<epoch>\S+) accuracy (?P<accuracy>\S+)")
    with pytest.raises(ValueError, match="epoch"):
        from_log("x", f"epoch {epoch} accuracy 0.5", pattern, 0.0, "accuracy")
    told = {"inf": "Infinity", "nan": "NaN"}.get(epoch, epoch)
    assert from_report("x", f'{{"at": 1.0, "epoch": {told}}}') is None
    assert from_report("x", f'{{"at": {told}, "epoch": 1}}') is None


@pytest.mark.parametrize("line", ["", "[]", "{", '{"at": "x"}', "[" * 100_000, '{"at": 1, "terms": [1]}'])
def test_a_line_that_is_no_report_is_left_out(line: str) -> None:
    assert from_report("x", line) is None
