"""Measured speeds that make rigid jobs malleable: a folder of tables such as `a100-vgg16.csv`.

    global_batch_size,1,2,4,8,...      training steps per second on so many GPUs

A job whose model and batch are in a table, and whose line says how many iterations it
needs, may run on any of the measured numbers of GPUs; all others stay rigid. Its table is
scaled so that the GPUs it asked for take the recorded time: the trace is the truth.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cotune.cluster.policy import Submission, rigid_config
from cotune.cluster.traces import Trace
from cotune.cluster.work import Steady
from cotune.errors import InvalidFile, NotFound
from cotune.types import Cluster, Device

Table = Mapping[int, Mapping[int, float]]  # global batch -> GPUs -> steps per second


def malleable(trace: Trace, folder: Path, cluster: Cluster) -> Trace:
    """Return the trace with work for the jobs whose speed was measured."""
    measured = speed_tables(folder)
    return replace(trace, jobs=tuple(_with_work(job, measured, cluster.devices[0]) for job in trace.jobs))


def _with_work(job: Submission, tables: Mapping[str, Table], there: Device) -> Submission:
    measured = tables.get(job.model, {}).get(job.batch_size, {})
    if not measured.get(job.gpus) or not 0 < job.seconds < float("inf"):
        return job
    across_racks = job.work.across_racks if isinstance(job.work, Steady) else 1.0
    device = job.device or there.name
    rates = {
        rigid_config(gpus, max(job.batch_size // gpus, 1), device): rate / measured[job.gpus]
        for gpus, rate in sorted(measured.items())
        if rate > 0 and gpus <= (there.count or 0)
    }
    wants = rigid_config(job.gpus, max(job.batch_size // job.gpus, 1), device)
    return replace(job, work=Steady(job.seconds, rates, across_racks), wants=wants)


def speed_tables(folder: Path) -> dict[str, Table]:
    """Return the tables of a folder by model."""
    if not folder.is_dir():
        raise NotFound(f"no folder of speed tables at {folder}")
    tables = {path.stem.partition("-")[2] or path.stem: _table(path) for path in sorted(folder.glob("*.csv"))}
    if not tables:
        raise NotFound(f"{folder} holds no MODEL.csv with speeds")
    return tables


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
