"""Why there are no samples to plan a job from, and by which metric the store has some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cotune.errors import NotFound
from cotune.jobfile import settings as job_settings
from cotune.jobfile.settings import Settings
from cotune.store import Store
from cotune.store.database import KnownJob
from cotune.types import Job
from cotune.units import counted


def not_measured(settings: Settings, store: Store, folder: Path) -> NotFound:
    """Return that a job has no samples, with what is known of earlier forms of it."""
    job, others = settings.job, store.others(settings.job)
    if not job.command and job_settings.find(folder) is None:
        return job_settings.no_job_file(folder)
    of = "is" if others == 1 else "are"
    before = f" ({counted(others, 'sample')} {of} of an earlier form of this job: its command, data or metric changed)"
    if otherwise := measured_otherwise(settings, store):
        before = f" (its samples tell {otherwise}: ask for that instead)"
    return NotFound(
        f"no samples of job {job.name!r} in {store.label}{before if others else ''}; measure it first",
        remedy="profile",
        job=job,
    )


def measured_otherwise(settings: Settings, store: Store) -> str | None:
    """Return by which other metrics this very job was evaluated, or that the same one was better the other way."""
    if not settings.metric_named:
        return None
    job, known = settings.job, list(_same_but_for_metric(settings.job, store))
    if metrics := sorted({one.definition.metric for one in known} - {job.metric}):
        return f"{' and '.join(metrics)}, and not {job.metric}"
    return f"{job.metric} as better when {known[0].definition.better}, and not when {job.better}" if known else None


def _same_but_for_metric(job: Job, store: Store) -> Iterator[KnownJob]:
    """Yield the jobs of a store that an evaluation tells of, and that differ from a job in what is asked alone."""
    for one in store.jobs():
        known = replace(job, metric=one.definition.metric, better=one.definition.better)
        same = one.name == job.name and known.fingerprint == one.fingerprint != job.fingerprint
        if same and any(sample.curve for sample in store.samples(one)):
            yield one
