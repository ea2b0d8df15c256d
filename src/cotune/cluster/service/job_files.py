"""The files of a job: where they are, what it has written there, and their removal after a while or beyond a size.

Samples and results are never removed, and only a folder that the service made: it bears the job's id and is in the runs
of the job's own project.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from cotune.checkpoints import is_own
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueuedJob
from cotune.cluster.service.states import FINAL
from cotune.run.tail import Tail
from cotune.store.location import RUNS, work_folder

LOG = "profile.log"  # what planning and measuring it have written
MOST_BYTES = 1 << 20  # of each file, from its end, where all is not asked for


def run_folder(job: QueuedJob) -> Path:
    """Return where the files of a job's starts go: in the folder of its own project."""
    return Path(job.folder) if job.folder else work_folder(Path(job.file.folder)) / RUNS / job.id


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


def tidy_ended(queue: Queue, seconds: float | None, most_bytes: float | None = None) -> int:
    """Remove the files of jobs that ended so many seconds ago or more, and the oldest where they take too many bytes.

    Return how many jobs' there were.
    """
    now, removed, kept = queue.now(), 0, 0.0
    for job, folder in sorted(_left(queue), key=lambda one: -one[0].changed):
        late = seconds is not None and job.changed <= now - seconds
        if not late and most_bytes is not None:
            kept += bytes_in(folder)
        if late or (most_bytes is not None and kept > most_bytes):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def bytes_in(folder: Path) -> int:
    """Return what the files of a folder take; a link counts as itself."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_symlink() or path.is_file())


def _left(queue: Queue) -> Iterator[tuple[QueuedJob, Path]]:
    """Yield the ended jobs whose folder is still there."""
    for job in queue.jobs(states=FINAL):
        folder, runs = Path(job.folder or ""), work_folder(Path(job.file.folder)) / RUNS
        if (
            job.folder
            and folder.name == job.id
            and is_own(folder, runs)
            and folder.is_dir()
            and not folder.is_symlink()
        ):
            yield job, folder
