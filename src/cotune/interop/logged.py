"""Runs that other tools wrote down, as samples: one small reader for each tool.

    source ─runs▶ Logged ─measured▶ Sample

A reader is one file with `runs(source) -> Iterator[Logged]`: it knows a format and nothing
of jobs. What a log means for a job (which number is the metric, how many workers ran, how
steps become epochs) is in `measured`, once for all tools.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotune import registry
from cotune.errors import CotuneError, InvalidFile, NotFound
from cotune.safety import yaml_text
from cotune.types import Failure

_BUSY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Point:
    """Numbers by name that were logged at one moment: a step as the tool counts, a time of day, epochs done."""

    values: Mapping[str, float]
    step: float | None = None
    at: float | None = None
    epoch: float | None = None


@dataclass(frozen=True, slots=True)
class Logged:
    """One run as a tool wrote it down.

    `seconds` is how long it took where the points have no time of their own, `evaluation`
    how long one evaluation took, `failure` why it ended if it did not finish.
    """

    name: str
    points: tuple[Point, ...]
    params: Mapping[str, object] = field(default_factory=dict)
    began: float | None = None
    ended: float | None = None
    seconds: float | None = None
    evaluation: float | None = None
    failure: Failure | None = None
    warning: str | None = None


def names() -> tuple[str, ...]:
    """Return the tools whose logs can be read."""
    return tuple(sorted(registry.modules("logs")))


def logs_of(tool: str, source: Path) -> list[Logged]:
    """Return the runs that a tool has logged at a path; none is an error."""
    if not source.exists():
        raise NotFound(f"no file or folder {source}")
    reader = importlib.import_module(registry.modules("logs")[tool])
    try:
        found: list[Logged] = list(reader.runs(source))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidFile(f"{source} is not what {tool} writes: {error!r}") from None
    if not found:
        raise NotFound(f"{source} holds no run of {tool}")
    return found


def below(source: Path, pattern: str) -> list[Path]:
    """Return the files of that name at a path or anywhere below it."""
    return [source] if source.is_file() else sorted(source.rglob(pattern))


def by_step(numbers: Iterable[tuple[float, str, float, float]]) -> tuple[Point, ...]:
    """Return (step, name, value, time) as one point for each step, at the latest time of its numbers."""
    values: dict[float, dict[str, float]] = {}
    times: dict[float, float] = {}
    for step, name, value, at in numbers:
        values.setdefault(step, {})[name] = value
        times[step] = max(at, times.get(step, 0.0))
    return tuple(Point(values[step], step, times[step]) for step in sorted(values))


def hyperparameters(folder: Path) -> Mapping[str, object]:
    """Return what Lightning's loggers keep beside their files; objects of its own are not read."""
    file = folder / "hparams.yaml"
    try:
        loaded: Any = yaml_text.read(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except ValueError:
        return {}
    return loaded if isinstance(loaded, dict) else {}


@contextmanager
def database(path: Path, what: str) -> Iterator[sqlite3.Connection]:
    """Open a tool's SQLite file to read it; its troubles become errors that a user can act on."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as opened:
            yield opened
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            words = f"{path} was kept locked by another process for {_BUSY_SECONDS:g} s"
            raise CotuneError(f"{words}; try again when nothing writes to it, or read a copy") from None
        raise InvalidFile(f"{path} is no database of {what}: {error}") from None
