"""What benchmarks share: recordings by their folders, tasks for several processes, rows grouped and summarised."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from cotune.errors import NotFound
from cotune.lab.bench.truth import recording_of
from cotune.recording.reader import JOB

Task = TypeVar("Task")
Answer = TypeVar("Answer")
Row = TypeVar("Row")
Key = TypeVar("Key", bound=Hashable)
Figures = dict[str, Any]  # what a summary says, by name, as JSON has it


def worked_off(work: Callable[[Task], Answer], tasks: Sequence[Task], processes: int) -> Iterator[Answer]:
    """Yield the answer to each task, in their order."""
    if processes == 1 or len(tasks) < 2:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(work, tasks)


def grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """Return the rows of each key, keys and rows in the order they come."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def overall(measure: Callable[..., float], values: Iterable[float | None]) -> float | None:
    """Return the mean, median or another measure of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    return float(measure(known)) if known else None


def figure(measure: Callable[..., float], name: str, rows: Iterable[object]) -> float | None:
    """Return a measure of one field of the rows."""
    return overall(measure, (getattr(row, name) for row in rows))


def usable(folders: Iterable[Path], why_not: Callable[[Path], str | None]) -> tuple[list[Path], list[Figures]]:
    """Return the recordings that a bench of plans can use, and those left out with the reason."""
    chosen, left_out = [], []
    for folder in folders:
        recording = recording_of(folder)
        both = recording.times and recording.curves
        reason = why_not(folder) if both else "planning for a target needs both tables"
        if reason is None:
            chosen.append(folder)
        else:
            left_out.append({"recording": recording.name, "reason": reason})
    return chosen, left_out


def recording_folders(paths: Sequence[Path]) -> list[Path]:
    """Return the recordings named, and those in the folders named."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(job.parent for job in path.glob(f"*/{JOB}")) if path.is_dir() else []
        if (path / JOB).is_file():
            found.append(path)
        elif inside:
            found += inside
        else:
            raise NotFound(f"no recording at {path}: neither it nor a folder in it has a {JOB}")
    return found
