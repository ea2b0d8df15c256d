"""The samples of a job's own project, brought along when the job is handed in to another store.

Whoever has profiled in the project's folder need not be measured again: its samples are copied, with their ids, into
the store of the queue. A copy that is there already changes nothing.
"""

from __future__ import annotations

from pathlib import Path

from cotune.cluster.service.snapshot import JobSnapshot
from cotune.errors import CotuneError
from cotune.jobfile.metric import as_measured
from cotune.store import Store, open_store, work_folder
from cotune.store.location import FILE


def adopt_samples(store: Store, snapshot: JobSnapshot) -> int:
    """Copy the ended samples of the project of a job file; return how many there were."""
    own = work_folder(Path(snapshot.folder)) / FILE
    if not own.is_file() or str(store.url.database) == str(own):
        return 0
    settings = snapshot.settings()
    try:
        with open_store(str(own)) as project:
            job = as_measured(settings, project).job
            known = {sample.id for sample in store.samples(job)}
            fresh = [sample for sample in project.samples(job) if sample.ended and sample.id not in known]
    except CotuneError:  # it cannot be read: the job is measured by the service
        return 0
    for sample in fresh:
        store.save(job, sample)
    return len(fresh)
