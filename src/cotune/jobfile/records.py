"""Settings from records, for who has no job file: the same checks, whether a part is a record or its plain form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cotune.errors import UsageError
from cotune.jobfile.settings import Settings, loads
from cotune.space import Space
from cotune.types import Cluster, Device, Goal, Job

_SOURCE = "the project"


def settings_of(
    job: Job | str | Sequence[str] | Mapping[str, Any] | None,
    *,
    search: Space | Mapping[str, Any] | None = None,
    goal: Goal | Mapping[str, Any] | None = None,
    devices: Cluster | Mapping[str, Any] | None = None,
    engine: str | Mapping[str, Any] | None = None,
    folder: Path,
) -> Settings:
    """Return the settings of a job given as a record, or as the job file would say it."""
    if not isinstance(goal, Goal | Mapping | None):
        raise UsageError(f"a goal is a Goal or what a job file would say of it, not {goal!r:.80}")
    said = {**_job(job), "engine": engine, **(goal if isinstance(goal, Mapping) else {})}
    if search is not None:
        said["search"] = {axis.name: axis.values for axis in search.axes} if isinstance(search, Space) else search
    if isinstance(devices, Cluster):
        said |= {"devices": {one.name: _device(one) for one in devices.devices}, "currency": devices.currency}
    else:
        said["devices"] = devices
    settings = loads("{}", said, _SOURCE, folder)
    if isinstance(job, Job):
        settings = replace(
            settings, job=replace(job, folder=settings.job.folder, where=job.where or settings.job.where)
        )
    if isinstance(goal, Goal):
        settings = replace(settings, goal=goal)
    if isinstance(search, Space):
        settings = replace(settings, space=search)
    return replace(settings, cluster=devices) if isinstance(devices, Cluster) else settings


def _job(job: Job | str | Sequence[str] | Mapping[str, Any] | None) -> dict[str, Any]:
    if isinstance(job, Mapping):
        return dict(job)
    if not isinstance(job, Job | Sequence | None):
        raise UsageError(f"a job is a Job, its command or what a job file would say of it, not {job!r:.80}")
    if not isinstance(job, Job):
        return {"run": job if job is None or isinstance(job, str) else list(job)}
    given = {"name": job.name, "run": list(job.command) or None, "examples": job.examples, "env": dict(job.env) or None}
    return given | {"framework": job.framework, "reads": list(job.reads)}


def _device(device: Device) -> dict[str, Any]:
    price = "none" if device.price_per_hour is None else device.price_per_hour
    return {"count": device.count, "price_per_hour": price, "per_node": device.per_node, "bill": device.bill}
