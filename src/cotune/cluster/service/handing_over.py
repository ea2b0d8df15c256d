"""A job of the queue as the live world takes it: with what is believed of it, and what it did before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cotune.cluster.live_job import Queued
from cotune.cluster.service.belief import Belief
from cotune.cluster.service.device_types import is_alike
from cotune.cluster.service.preparers import run_folder
from cotune.cluster.service.queued import QueuedJob
from cotune.store import Store
from cotune.types import Cluster, Job, Sample


def handed_over(
    job: QueuedJob, belief: Belief, cluster: Cluster, store: Store, *, submit: float, best_effort: bool
) -> Queued:
    """Return a job that was submitted at a time of the world's clock; with `best_effort` no deadline is promised."""
    submission = belief.submission(
        job.id,
        submit=submit,
        deadline=None if best_effort or job.deadline is None else submit + job.deadline,
        cluster=cluster,
        team=job.team,
        priority=job.priority,
    )
    folder = run_folder(job)
    earlier = earlier_starts(store, belief.job, folder)
    return Queued(
        belief.job,
        replace(belief.goal, deadline=job.deadline),
        submission,
        belief.needed,
        belief.spread,
        earlier=earlier,
        silence=belief.silence,
        stop_grace=belief.stop_grace,
        device=belief.wants.device if is_alike(cluster) else None,
        engine=belief.engine,
        folder=folder,
        promised=bool(earlier),
    )


def earlier_starts(store: Store, job: Job, folder: Path) -> tuple[Sample, ...]:
    """Return the starts for good that a job has made in its folder, oldest first."""
    return tuple(sample for sample in store.samples(job, "run") if sample.folder == str(folder))
