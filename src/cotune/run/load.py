"""What else a machine does while a start runs: processes of others that want a core.

Once a second, at most, the processes that run or wait for a core are counted, less those below this one, whose workers
are measured. Their mean goes with the sample: a start that was measured on a busy machine tells less of the next.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from cotune.types import Load

_EVERY = 1.0  # seconds
_RUNNING = b"R"
_ENOUGH = 512  # bytes: a process's name, state and parent come first


@dataclass
class LoadWatch:
    """Counts the busy processes of others, now and then."""

    proc: Path = Path("/proc")
    root: int = field(default_factory=os.getpid)
    _looked: float | None = None
    _counts: list[int] = field(default_factory=list)

    def look(self, now: float) -> None:
        """Count once more, unless that was done a moment ago."""
        if self._looked is None or now - self._looked >= _EVERY:
            self._looked = now
            if (count := _others(self.proc, self.root)) is not None:
                self._counts.append(count)

    @property
    def load(self) -> Load | None:
        """Return what was seen on average; None where this machine does not tell."""
        return Load(sum(self._counts) / len(self._counts), os.cpu_count() or 1) if self._counts else None


def _others(proc: Path, root: int) -> int | None:
    """Return how many processes that are not below the root, nor the root itself, run or wait for a core."""
    parents: dict[int, int] = {}
    running: list[int] = []
    with contextlib.suppress(OSError), os.scandir(proc) as entries:
        for entry in entries:
            if entry.name.isdigit() and (told := _state(f"{entry.path}/stat")) is not None:
                parents[int(entry.name)] = told[1]
                running += [int(entry.name)] if told[0] == _RUNNING else []
    return sum(not _below(pid, root, parents) for pid in running) if parents else None


def _state(file: str) -> tuple[bytes, int] | None:
    """Return the state of a process, and its parent; None when it is gone."""
    try:
        descriptor = os.open(file, os.O_RDONLY)  # takes half as long as a Path, for every process
        try:
            words = os.read(descriptor, _ENOUGH).rpartition(b")")[2].split()
        finally:
            os.close(descriptor)
        return words[0], int(words[1])
    except (OSError, IndexError, ValueError):
        return None


def _below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid > 0:
        if pid == root:
            return True
        pid = parents.get(pid, 0)
    return False
