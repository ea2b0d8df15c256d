"""What a job has written: while it was measured, and what one worker of its starts printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cotune.cluster.service.preparers import LOG
from cotune.cluster.service.queued import QueuedJob
from cotune.run.tail import Tail

MOST_BYTES = 1 << 20  # of each file, from its end, where all is not asked for


def log_tails(job: QueuedJob, rank: int) -> list[Tail]:
    """Return the files of a job that grow, none before it has a folder."""
    return [Tail(Path(job.folder) / name, whole=True) for name in _names(rank)] if job.folder else []


def log_lines(job: QueuedJob, rank: int) -> Iterator[str]:
    """Yield all lines that a job has written so far."""
    for tail in log_tails(job, rank):
        yield from tail.lines(last=True)


def last_lines(job: QueuedJob, rank: int, most: int) -> list[str]:
    """Return the last lines that a job has written, and no more of a file than is sane to send."""
    lines: list[str] = []
    for name in _names(rank) if job.folder else ():
        lines += _end_of(Path(str(job.folder)) / name)
    return lines[-most:]


def _end_of(file: Path) -> list[str]:
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, 2)
            opened.seek(max(size - MOST_BYTES, 0))
            return opened.read(MOST_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []


def _names(rank: int) -> tuple[str, str]:
    return LOG, f"rank-{rank}.log"
