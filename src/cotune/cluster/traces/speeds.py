"""How fast jobs are elsewhere: measured tables that make rigid jobs malleable, and device types of their own speed.

A folder of tables such as `a100-vgg16.csv`:

    global_batch_size,1,2,4,8,...      training steps per second on so many GPUs

A job whose model and batch are in a table may run on any of the measured numbers of GPUs; all others stay rigid. Its
table is scaled so that the GPUs it asked for take the recorded time: the trace is the truth.

On several types of device a table named after one (`v100-vgg16.csv`) holds there; a trace was then recorded on the
first type of the cluster. A type without tables of its own is as fast as its `speed` in the cluster file, against the
first type that has, or else against what the trace was recorded on. A job that names its device was recorded on it.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cotune.cluster.policy import Submission, rigid_config
from cotune.cluster.traces import Trace
from cotune.cluster.work import Steady
from cotune.errors import InvalidFile, NotFound
from cotune.types import Cluster

Table = Mapping[int, Mapping[int, float]]  # global batch -> GPUs -> steps per second


def malleable(trace: Trace, folder: Path, cluster: Cluster, speeds: Mapping[str, float] | None = None) -> Trace:
    """Return the trace with work for the jobs whose speed was measured, on each type as fast as this is."""
    tables = _by_device(folder, cluster, speeds or {})
    return replace(trace, jobs=tuple(_with_work(job, tables, cluster) for job in trace.jobs))


def _by_device(
    folder: Path, cluster: Cluster, speeds: Mapping[str, float]
) -> dict[str, tuple[float, Mapping[str, Table]]]:
    """Return the tables of each device, and how much faster it is than they say."""
    first, *others = (device.name for device in cluster.devices)
    measured, tables = speed_tables(folder, first)
    found: dict[str, tuple[float, Mapping[str, Table]]] = {first: (1.0 if measured else speeds.get(first, 1.0), tables)}
    for name in others:
        its_own, own = speed_tables(folder, name)
        against = speeds.get(first, 1.0) if measured else 1.0
        found[name] = (1.0, own) if its_own else (speeds.get(name, 1.0) / against, tables)
    return found


def _with_work(
    job: Submission, tables: Mapping[str, tuple[float, Mapping[str, Table]]], cluster: Cluster
) -> Submission:
    allowed = [device for device in cluster.devices if job.device in (None, device.name)]
    measured = {
        device.name: (1.0 if job.device else factor, by_model.get(job.model, {}).get(job.batch_size, {}))
        for device in allowed
        for factor, by_model in [tables[device.name]]
    }
    recorded = next((steps[job.gpus] for _, steps in measured.values() if steps.get(job.gpus)), 0.0)
    if not recorded or not 0 < job.seconds < float("inf"):
        return job
    rates = {
        rigid_config(gpus, max(job.batch_size // gpus, 1), device.name): factor * steps[gpus] / recorded
        for device in allowed
        for factor, steps in [measured[device.name]]
        for gpus in sorted(steps)
        if steps[gpus] > 0 and gpus <= (device.count or 0)
    }
    asked = [config for config in rates if config.workers == job.gpus]
    wants = max(asked, key=lambda config: rates[config])
    return replace(job, work=Steady(job.seconds, rates, _across_racks(job)), wants=wants)


def _across_racks(job: Submission) -> float:
    return job.work.across_racks if isinstance(job.work, Steady) else 1.0


def at_speeds(trace: Trace, cluster: Cluster, speeds: Mapping[str, float]) -> Trace:
    """Return the trace with every rigid job as fast on each device as this is."""
    return replace(trace, jobs=tuple(_at_speeds(job, cluster, speeds) for job in trace.jobs)) if speeds else trace


def _at_speeds(job: Submission, cluster: Cluster, speeds: Mapping[str, float]) -> Submission:
    rigid = job.work is None or (isinstance(job.work, Steady) and len(job.work.rates) == 1)
    if job.device is not None or not rigid or not 0 < job.seconds < float("inf"):
        return job
    there = [device.name for device in cluster.devices if (device.count or 0) >= job.gpus]
    rates = {rigid_config(job.gpus, job.batch_size, name): speeds[name] for name in there}
    wants = max(rates, key=lambda config: rates[config])
    return replace(job, work=Steady(job.seconds, rates, _across_racks(job)), wants=wants)


def speed_tables(folder: Path, device: str = "") -> tuple[bool, dict[str, Table]]:
    """Return the tables of a folder by model: those of a device, and that they are, where it has some; else all."""
    if not folder.is_dir():
        raise NotFound(f"no folder of speed tables at {folder}")
    every = sorted(folder.glob("*.csv"))
    if not every:
        raise NotFound(f"{folder} holds no MODEL.csv with speeds")
    own = [path for path in every if path.stem.partition("-")[0] == device and "-" in path.stem]
    models = Counter(path.stem.partition("-")[2] or path.stem for path in own or every)
    double = next((model for model, count in models.items() if count > 1), None)
    if double is not None:
        raise InvalidFile(
            f"{folder} has {models[double]} tables of {double}; a cluster file whose devices have the names that these "
            "tables begin with says which holds where"
        )
    return bool(own), {path.stem.partition("-")[2] or path.stem: _table(path) for path in own or every}


def _table(path: Path) -> Table:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return {
            int(row.pop("global_batch_size")): {int(gpus): float(rate) for gpus, rate in row.items() if rate}
            for row in rows
        }
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InvalidFile(f"{path} is not a table of speeds: {error}") from None
