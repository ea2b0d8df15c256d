"""What a job writes into log files of its own, read while it runs.

    log: logs/*.txt             lines of files, by the pattern; files that come later too
    log: {tensorboard: runs}    what a tool logs, by the reader of `cotune import`

Only what is added after the start counts: earlier runs stay in the same folders.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from cotune.errors import InvalidFile, NotFound
from cotune.run.launch import Launch, Reported
from cotune.run.tail import Tail

if TYPE_CHECKING:
    from cotune.interop.logged import Logged

TEXT = "text"
_LOOK_SECONDS = 1.0  # a tool's log is read from its beginning each time
_DEPTHS = ("*", "*/*", "*/*/*")  # below a job's folder, where logs are looked for
_MOST_FILES = 10_000  # that are looked at
_CLOCK_SECONDS = 0.1  # by which the clock of files may lag behind
_SUFFIXES = (".jsonl", ".csv")
_EVENTS = "tfevents"  # in the name of each of TensorBoard's files
_LIGHTNING = "lightning_logs"


def log_of(launch: Launch, output: Path) -> Tail | Files:
    """Return where a launch's lines are: its log files, if the job names some, else what it prints."""
    if launch.job.log is None or launch.job.log[0] != TEXT:
        return Tail(output)
    return Files(Path(launch.job.folder), launch.job.log[1])


def tool_of(launch: Launch) -> ToolLog | None:
    """Return the log of a tool that the job names, if it does."""
    if launch.job.log is None or launch.job.log[0] == TEXT:
        return None
    return ToolLog(launch, *launch.job.log)


def written_log(folder: Path, since: str) -> str | None:
    """Return the `log:` that names what looks like a log and was written below a folder since a time, if anything was.

    Hidden folders are left out: the starts' own files lie there.
    """
    begun = datetime.fromisoformat(since).timestamp()
    for path in islice((path for depth in _DEPTHS for path in sorted(folder.glob(depth))), _MOST_FILES):
        place = path.relative_to(folder)
        named = path.suffix in _SUFFIXES or _EVENTS in path.name
        if named and not any(part.startswith(".") for part in place.parts) and _written(path) >= begun - _CLOCK_SECONDS:
            return _naming(place)
    return None


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it is gone
        return 0.0


def _naming(place: Path) -> str:
    if _EVENTS in place.name:
        return f"log: {{tensorboard: {place.parent}}}"
    return f"log: {{lightning: {place.parent}}}" if _LIGHTNING in place.parts else f"log: {place}"


class Files:
    """The lines that are added, from now on, to the files that a pattern of names finds in a folder."""

    def __init__(self, folder: Path, names: str) -> None:
        self._folder, self._names = folder, names
        self._tails = {path: Tail(path) for path in folder.glob(names)}
        self.written = 0.0  # the file of the line that was read last

    def lines(self, *, last: bool) -> Iterator[str]:
        """Yield the whole lines added since the last call, and torn ones too if it is the `last` call."""
        for path in sorted(self._folder.glob(self._names)):
            tail = self._tails.setdefault(path, Tail(path, whole=True))
            for line in tail.lines(last=last):
                self.written = tail.written
                yield line


class ToolLog:
    """What a tool logs of a launch: the points that its runs did not have when the launch began."""

    def __init__(self, launch: Launch, tool: str, source: str) -> None:
        self._launch, self._tool = launch, tool
        self._source = Path(launch.job.folder) / source
        self._looked = 0.0
        self.missing: str | None = None
        self._seen = {key for run in self._runs() for key in self._keys(run)}

    def reports(self, now: float, *, last: bool) -> Iterator[Reported]:
        """Yield what was logged since the last call, at most once a second."""
        if now < self._looked + _LOOK_SECONDS and not last:
            return
        self._looked = now
        for run in self._runs():
            yield from self._new(run, now)
            self._seen |= set(self._keys(run))

    def _keys(self, run: Logged) -> list[tuple[str, int, bool]]:
        """Return what tells points apart; one that gains the metric later is new: numbers are written one by one."""
        return [(run.name, place, self._launch.job.metric in point.values) for place, point in enumerate(run.points)]

    def _runs(self) -> list[Logged]:
        from cotune.interop.logged import logs_of

        try:
            found = logs_of(self._tool, self._source)
        except (NotFound, InvalidFile) as error:  # not there yet, or just being written
            self.missing = str(error)
            return []
        self.missing = None
        return found

    def _new(self, run: Logged, now: float) -> Iterator[Reported]:
        from cotune.interop.measured import Hints, epochs_of

        metric, job = self._launch.job.metric, self._launch.job
        done = epochs_of(job, self._launch.config, run, Hints())
        for key, epoch, point in zip(self._keys(run), done, run.points, strict=True):
            if key in self._seen:
                continue
            at = now if point.at is None else min(now, now - (time.time() - point.at))
            others = tuple((name, value) for name, value in point.values.items() if name != metric)
            yield Reported(self._launch.id, at, epoch, point.values.get(metric), (), others)
