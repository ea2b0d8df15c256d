"""What readers share: lines, numbers with limits, and the protocol of a format."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cotune.cluster.policy import Submission

_YEAR = 365.25 * 86400.0
LONGEST = 10 * _YEAR  # a run time beyond it is a slip of the trace


@dataclass(frozen=True, slots=True)
class TraceLine:
    """A line of a table and its number in the file."""

    number: int
    columns: list[str]


Make = Callable[[TraceLine], Submission | None]


class Reader:
    """One format; what is the same for most of them is here."""

    name: str

    def knows(self, header: Sequence[str]) -> bool:
        """Return whether a file with this header is of this format."""
        raise NotImplementedError

    def missing(self, header: Sequence[str]) -> list[str]:
        """Return the columns without which nothing can be read."""
        raise NotImplementedError

    def header_problems(self, header: Sequence[str]) -> list[str]:
        """Return what is wrong with the header."""
        return [f"no column {column!r}" for column in self.missing(header)]

    def open(self, header: Sequence[str], path: Path) -> Make:
        """Return what makes a submission of a line, None for a line that is no job, or raises ValueError."""
        raise NotImplementedError

    def date(self, header: Sequence[str], line: TraceLine) -> datetime | None:  # noqa: ARG002  # most have seconds only
        """Return when the job of a line was submitted, where the format has dates."""
        return None


def seconds(text: str, name: str) -> float:
    """Return a time that is not negative."""
    value = number(text, name)
    if not math.isfinite(value):
        raise ValueError(f"{name} is {text}, not a time")
    if value < 0:
        raise ValueError(f"{name} is {text}, before the start of the trace")
    return value


def duration(text: str, name: str) -> float:
    """Return a run time; `inf` is a job that never ends."""
    if text == "inf":
        return math.inf
    value = seconds(text, name) if not text.startswith("-") else number(text, name)
    if value < 0:
        raise ValueError(f"{name} is {text}; a run time cannot be negative")
    if value > LONGEST:
        raise ValueError(f"{name} is {text}, that is {value / _YEAR:.1f} years; write inf for a job that never ends")
    return value


def count(text: str, name: str) -> int:
    """Return a whole number of at least one."""
    value = number(text, name)
    if not value.is_integer():
        raise ValueError(f"{name} is {text!r}, not a whole number")
    if value < 1:
        raise ValueError(f"{name} is {text}; a job needs at least one")
    return int(value)


def number(text: str, name: str) -> float:
    """Return a number, whatever its sign."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}, not a number" if text else f"{name} is missing") from None
