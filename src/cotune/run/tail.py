"""Reading files that grow: reports as JSON lines, and logs through a pattern."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import threading
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from cotune.jobfile.pattern import group_of
from cotune.run.launch import Reported
from cotune.safety.printable import printable
from cotune.worker.report import PROGRESS, TERMS

SEARCH_SECONDS = 1.0
_MOST_LETTERS = 10_000
_MOST_UNTIMED = 200
_NAME_LETTERS = 200  # of a metric
_WARNING_LETTERS = 500
_KNOWN_BY = 4096  # bytes of a file's beginning, and as many before a place
_NO_NUMBER = re.compile(r"(?<![\w.])(?:nan|inf(?:inity)?)(?![\w.])", re.IGNORECASE)
_LINE_END = re.compile(rb"[\r\n]+")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where reading goes on in a file, and by what the file is known again."""

    offset: int = 0
    inode: int = 0
    around: bytes = b""  # its first bytes, and the last before the offset

    @classmethod
    def of(cls, file: BinaryIO, offset: int) -> _Place:
        """Return the place at an offset of a file."""
        return cls(offset, os.fstat(file.fileno()).st_ino, _around(file, offset))

    def is_in(self, file: BinaryIO) -> bool:
        """Return whether a file is the one of this place: not another of its name, nor cut or written anew."""
        state = os.fstat(file.fileno())
        same = state.st_ino == self.inode and state.st_size >= self.offset
        return self.offset == 0 or (same and _around(file, self.offset) == self.around)


def _around(file: BinaryIO, offset: int) -> bytes:
    file.seek(0)
    first = file.read(min(offset, _KNOWN_BY))
    file.seek(max(0, offset - _KNOWN_BY))
    return first + file.read(min(offset, _KNOWN_BY))


class Tail:
    """The lines that are added to a file from now on, or the `whole` of it; `written` by the wall clock.

    A file that is replaced, cut or written anew is read from its beginning, less the first lines of it that were read
    before: some scripts write all of their log again with each line.
    """

    def __init__(self, path: Path, *, whole: bool = False) -> None:
        self._path = path
        self._place, self._rest = _Place(), b""
        self._untouched: int | None = None  # when the file was written, while nothing but what stood there is in it
        self._read, self._upto = array("q"), 0  # the lines read, and how many of them the file has had since it began
        self.written = 0.0
        if path.exists() and not whole:
            with path.open("rb") as file:
                state = os.fstat(file.fileno())
                self._place, self._untouched = _Place.of(file, state.st_size), state.st_mtime_ns

    def lines(self, *, last: bool) -> Iterator[str]:
        """Yield the whole lines added since the last call, and the torn one too if it is the `last` call."""
        try:
            with self._path.open("rb") as file:
                added = self._added(file)
        except FileNotFoundError:
            self._begin_again()
            return
        *whole, self._rest = _LINE_END.split(self._rest + added)
        if last and self._rest:
            whole.append(self._rest)
        for line in whole:
            if not self._is_repeated(hash(line)):
                yield line.decode(errors="replace")

    def _added(self, file: BinaryIO) -> bytes:
        """Return what was added to a file since it was read, all of it where it is no longer the same."""
        state = os.fstat(file.fileno())
        self.written = state.st_mtime
        written_alike = state.st_size == self._place.offset and self._untouched not in (None, state.st_mtime_ns)
        if written_alike or not self._place.is_in(file):
            self._begin_again()
        file.seek(self._place.offset)
        added = file.read()
        if added:
            self._place, self._untouched = _Place.of(file, self._place.offset + len(added)), None
        return added

    def _begin_again(self) -> None:
        self._place, self._untouched, self._rest, self._upto = _Place(), None, b"", 0

    def _is_repeated(self, line: int) -> bool:
        """Return whether a line, as its hash, stood at the same place before the file was written anew; note it."""
        repeated = self._upto < len(self._read) and self._read[self._upto] == line
        if not repeated:
            del self._read[self._upto :]
            self._read.append(line)
        self._upto += 1
        return repeated


Count = Callable[[Mapping[str, float]], float | None]


def as_epochs(said: Mapping[str, float]) -> float | None:
    """Return the epochs that are told, as they are told."""
    return said.get("epoch")


def from_report(launch: str, line: str, count: Count = as_epochs) -> Reported | None:
    """Return what a line of a report file says, or None if it says nothing that can be read."""
    try:
        said: dict[str, Any] = json.loads(line)
        told = {name: float(said[name]) for name in PROGRESS if said.get(name) is not None}
        if not math.isfinite(said["at"]) or not all(map(math.isfinite, told.values())):
            return None
        return Reported(
            launch,
            float(said["at"]),
            count(told),
            None if said.get("accuracy") is None else float(said["accuracy"]),
            tuple((name, float(value)) for name, value in said.get("terms", {}).items()),
            tuple((printable(name)[:_NAME_LETTERS], float(value)) for name, value in said.get("metrics", {}).items()),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def warning_in(line: str) -> str | None:
    """Return the warning that a line of a report file is, if it is one."""
    if '"warning"' not in line:
        return None
    try:
        said = json.loads(line)["warning"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return printable(said)[:_WARNING_LETTERS] if isinstance(said, str) else None


def from_log(
    launch: str, line: str, pattern: re.Pattern[str], at: float, metric: str, *, count: Count = as_epochs
) -> Reported | None:
    """Return what a line of output says by the pattern, or None if it does not match."""
    match = search(pattern, line)
    if match is None:
        return None
    said = {name: float(text) for name, text in match.groupdict().items() if text is not None}
    told = {name: said.pop(name) for name in PROGRESS if name in said}
    if odd := [f"{name} {value}" for name, value in told.items() if not math.isfinite(value)]:
        raise ValueError(odd[0])
    epoch, accuracy = count(told), said.pop(group_of(metric, said) or "", None)
    terms = tuple((name, value) for name, value in said.items() if name in TERMS)
    return Reported(launch, at, epoch, accuracy, terms, tuple(p for p in said.items() if p[0] not in TERMS))


def told_no_number(line: str, pattern: re.Pattern[str], metric: str) -> bool:
    """Return whether a line tells nan or inf of a metric, where the pattern reads digits alone."""
    if not _NO_NUMBER.search(line):
        return False
    match = search(pattern, _NO_NUMBER.sub(lambda found: "0" * len(found[0]), line))
    group = group_of(metric, match.groupdict()) if match else None
    return match is not None and group is not None and bool(_NO_NUMBER.fullmatch(line[slice(*match.span(group))]))


def begins_at_zero(line: str, pattern: re.Pattern[str]) -> bool:
    """Return whether a line tells epoch 0 as a whole number; `0.00` is the start of a count in parts of epochs."""
    match = search(pattern, line)
    return match is not None and set(match.groupdict().get("epoch") or "") == {"0"}


class TooSlow(ValueError):
    """A pattern that takes more than its time on one line."""


def search(pattern: re.Pattern[str], line: str, seconds: float = SEARCH_SECONDS) -> re.Match[str] | None:
    """Return the first match in the first 10,000 letters of a line, or raise `TooSlow`.

    A pattern such as `(a+)+b` takes twice as long for each letter more; a line of 40 takes days. The alarm of the
    system ends the search. Only a program's main thread can be told by it: in others a line is cut to 200 letters,
    and searched without a limit.
    """
    if threading.current_thread() is not threading.main_thread():
        return pattern.search(line[:_MOST_UNTIMED])

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the system's own signature
        raise TooSlow(f"the pattern '{pattern.pattern[:80]}' takes more than {seconds:g} s on one line; simplify it")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return pattern.search(line[:_MOST_LETTERS])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
