"""What ended jobs leave behind, removed after a while or beyond a size: logs and checkpoints, never samples or results.

Only a folder that the service made is touched: it bears the job's id and stands in the runs of the job's own project.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from cotune.checkpoints import is_own
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueuedJob
from cotune.cluster.service.states import FINAL
from cotune.store.location import RUNS, work_folder


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
