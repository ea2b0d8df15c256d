"""What ended jobs leave behind, removed after a while: their logs and checkpoints, never their samples or results.

Only a folder that the service made is touched: it bears the job's id and stands in the runs of the job's own project.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from cotune.checkpoints import is_own
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.states import FINAL
from cotune.store.location import RUNS, work_folder


def tidy_ended(queue: Queue, seconds: float) -> int:
    """Remove the files of jobs that ended so many seconds ago or more; return how many jobs' there were."""
    now, removed = queue.now(), 0
    for job in queue.jobs(states=FINAL):
        if job.folder is None or job.changed > now - seconds:
            continue
        folder, runs = Path(job.folder), work_folder(Path(job.file.folder)) / RUNS
        if folder.name == job.id and is_own(folder, runs) and folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed
