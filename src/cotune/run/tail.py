"""Reading files that grow: reports as JSON lines, and logs through a pattern."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cotune.jobfile.pattern import group_of
from cotune.run.launch import Reported
from cotune.run.timed_search import search
from cotune.safety.printable import printable
from cotune.worker.report import PROGRESS, TERMS

_NAME_LETTERS = 200  # of a metric
_WARNING_LETTERS = 500
_LINE_END = re.compile(rb"[\r\n]+")


class Tail:
    """The lines that are added to a file from now on, or the `whole` of it; `written` by the wall clock."""

    def __init__(self, path: Path, *, whole: bool = False) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() and not whole else 0
        self._rest = b""
        self.written = 0.0

    def lines(self, *, last: bool) -> Iterator[str]:
        """Yield the whole lines added since the last call, and the torn one too if it is the `last` call."""
        try:
            with self._path.open("rb") as file:
                self.written = os.fstat(file.fileno()).st_mtime
                file.seek(self._offset)
                added = file.read()
        except FileNotFoundError:
            return
        self._offset += len(added)
        *whole, self._rest = _LINE_END.split(self._rest + added)
        if last and self._rest:
            whole.append(self._rest)
        for line in whole:
            yield line.decode(errors="replace")


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


def begins_at_zero(line: str, pattern: re.Pattern[str]) -> bool:
    """Return whether a line tells epoch 0 as a whole number; `0.00` is the start of a count in parts of epochs."""
    match = search(pattern, line)
    return match is not None and set(match.groupdict().get("epoch") or "") == {"0"}
