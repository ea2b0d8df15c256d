"""The metric of a job whose file names no target: the one that it was measured by, where its pattern still names it.

A metric is part of what a job is, since its samples hold that number. Taking the target out of the
file must not make another job of it, whose samples are elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from cotune.jobfile.pattern import group_of, metrics_in
from cotune.jobfile.settings import Settings
from cotune.store import Store


def as_measured(settings: Settings, store: Store) -> Settings:
    """Return the settings with the metric by which the job is known to a store, where they name none themselves."""
    if settings.metric_named:
        return settings
    job = settings.job
    told = metrics_in(job.pattern) if job.pattern else []
    known = [
        one
        for one in store.jobs()
        if one.name == job.name and one.samples and (not told or group_of(one.definition.metric, told) is not None)
    ]
    same = ((replace(job, metric=one.definition.metric, better=one.definition.better), one) for one in reversed(known))
    found = next((measured for measured, one in same if measured.fingerprint == one.fingerprint), job)
    return replace(settings, job=found)
