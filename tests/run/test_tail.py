"""Files that grow, also where a script cuts, replaces or rewrites what stood there before."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cotune.run.launch import Reported
from cotune.run.tail import Tail, TooSlow, from_log, from_report, search
from cotune.types import Job

from launching import PLAIN, Play  # isort: skip

EXPONENTIAL = re.compile(r"(?P<epoch>(\d+)+)x")
OLD = ("epoch 1 accuracy 0.91", "epoch 2 accuracy 0.92")
NEW = ("epoch 1 accuracy 0.11", "epoch 2 accuracy 0.12", "epoch 3 accuracy 0.13")


def write(path: Path, lines: Sequence[str], mode: str = "w") -> None:
    with path.open(mode) as file:
        file.writelines(f"{line}\n" for line in lines)


def rename_onto(path: Path, lines: Sequence[str]) -> None:
    write(path.with_suffix(".new"), lines)
    path.with_suffix(".new").rename(path)


def make_again(path: Path, lines: Sequence[str]) -> None:
    path.unlink()
    write(path, lines)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    write(path, OLD)
    return path


def test_what_stood_in_a_file_before_is_passed_over_where_lines_are_added(log: Path) -> None:
    tail = Tail(log)
    assert list(tail.lines(last=False)) == []
    write(log, NEW, "a")
    assert list(tail.lines(last=False)) == [*NEW]


@pytest.mark.parametrize("anew", [write, rename_onto, make_again])
@pytest.mark.parametrize("lines", [NEW[:1], NEW[:2], NEW], ids=["shorter", "as long", "longer"])
def test_a_file_that_is_written_anew_is_read_from_its_beginning(
    log: Path, anew: Callable[[Path, Sequence[str]], None], lines: Sequence[str]
) -> None:
    tail = Tail(log)
    anew(log, lines)
    assert list(tail.lines(last=True)) == [*lines]


def test_a_file_that_is_written_anew_with_the_same_lines_is_read_from_its_beginning(log: Path) -> None:
    tail = Tail(log)
    write(log, OLD)
    os.utime(log, (1e9, 1e9))  # the clock of files may not have moved
    assert list(tail.lines(last=True)) == [*OLD]


def test_a_file_that_is_gone_for_a_while_is_read_from_its_beginning(log: Path) -> None:
    tail = Tail(log)
    log.unlink()
    assert list(tail.lines(last=False)) == []
    write(log, OLD)
    assert list(tail.lines(last=False)) == [*OLD]


def test_a_file_that_is_cut_while_it_is_read_goes_on_from_its_new_beginning(log: Path) -> None:
    tail = Tail(log, whole=True)
    assert list(tail.lines(last=False)) == [*OLD]
    write(log, NEW[:1])
    assert list(tail.lines(last=False)) == [*NEW[:1]]
    write(log, NEW[1:], "a")
    assert list(tail.lines(last=False)) == [*NEW[1:]]


@pytest.mark.parametrize("anew", [write, rename_onto])
def test_a_script_that_writes_all_of_its_log_again_with_each_line_tells_each_once(
    log: Path, anew: Callable[[Path, Sequence[str]], None]
) -> None:
    tail, read = Tail(log), []
    for lines in ([], NEW[:1], [], NEW[:2], NEW[:2], [], NEW):  # a look may find it just cut
        anew(log, lines)
        read += tail.lines(last=False)
    assert read == [*NEW]


@pytest.mark.parametrize("mode", ["w", "a"])
def test_each_start_of_a_script_is_heard_whether_or_not_it_keeps_its_log(play: Play, tmp_path: Path, mode: str) -> None:
    job = Job("test", pattern=r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>\S+)", log=("text", "train.log"))
    for start, epochs in enumerate((3, 1, 2)):
        script = f"""
            with open("train.log", {mode!r}) as log:
                for epoch in range(1, {epochs} + 1):
                    print(f"epoch {{epoch}} accuracy 0.{start}{{epoch}}", file=log, flush=True)
        """
        events = play(script, command=PLAIN, job=job).events
        told = [event.accuracy for event in events if isinstance(event, Reported)]
        assert told == [float(f"0.{start}{epoch}") for epoch in range(1, epochs + 1)]


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
