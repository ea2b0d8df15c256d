"""Writing a recording: the folder that `read` reads, with only the columns that are needed."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from cotune.recording.reader import ACCURACY, JOB, TIMES
from cotune.recording.truth import USUAL
from cotune.types import Axes, Device, Job


@dataclass(frozen=True, slots=True)
class TimeRow:
    """Seconds per epoch as measured once."""

    workers: int
    batch_size: int
    epoch_seconds: float
    device: str = ""
    nodes: int | None = None
    repeat: str = ""
    accumulate: int = 1
    servers: int = 0
    axes: Axes = ()


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    """The metric after some epochs of one run."""

    global_batch: int
    epoch: float
    accuracy: float
    seed: str = ""
    workers: int | None = None


def write(
    folder: Path,
    job: Job,
    times: Sequence[TimeRow],
    accuracy: Sequence[AccuracyRow] = (),
    devices: Iterable[Device] = (),
    *,
    currency: str = "USD",
) -> Path:
    """Write a recording and return its folder; prices of devices are in a currency."""
    folder.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Any] = {
        "name": job.name,
        "examples": job.examples,
        "metric": job.metric,
        "better": job.better,
    }
    if job.lr is not None:
        facts["lr_rule"] = job.lr.rule
    elif job.scaling != "unknown":
        facts["lr_rule"] = job.scaling
    if listed := {device.name: _device(device) for device in devices}:
        facts["devices"] = listed
        facts |= {"currency": currency} if currency != "USD" else {}
    (folder / JOB).write_text(yaml.safe_dump(facts, sort_keys=False, allow_unicode=True), encoding="utf-8")
    _table(folder / TIMES, [_time(row) for row in times])
    _table(folder / ACCURACY, [asdict(row) for row in accuracy])
    return folder


def _device(device: Device) -> dict[str, Any]:
    facts = {"price_per_hour": device.price_per_hour, "per_node": device.per_node, "count": device.count}
    known = {name: value for name, value in facts.items() if value is not None}
    return known | ({"bill": device.bill} if device.bill != "device" else {})


def _time(row: TimeRow) -> dict[str, object]:
    columns = asdict(row)
    del columns["axes"]
    return columns | dict(row.axes)


def _table(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows with the columns in which any of them says something; no rows leave no file."""
    if not rows:
        path.unlink(missing_ok=True)
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    told = [name for name in names if any(row.get(name, "") not in ("", None, USUAL.get(name, "")) for row in rows)]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(told)
        for row in rows:
            table.writerow(["" if row.get(name) is None else row.get(name, "") for name in told])
