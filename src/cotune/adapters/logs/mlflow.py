"""MLflow: the runs of its SQLite file, read by SQL alone.

Of the many tables only `runs`, `metrics` and `params` are read. Times are in milliseconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from cotune.adapters.logs import Logged, Point, below, database
from cotune.types import INTERRUPTED

_RUNS = "SELECT run_uuid, name, status, start_time, end_time FROM runs WHERE lifecycle_stage = 'active'"
_METRICS = "SELECT key, value, timestamp, step FROM metrics WHERE run_uuid = ? AND is_nan = 0 ORDER BY step, timestamp"
_PARAMS = "SELECT key, value FROM params WHERE run_uuid = ?"
_FAILURES = {
    "FAILED": "ended as FAILED in MLflow",
    "KILLED": f"{INTERRUPTED}: KILLED in MLflow",
    "RUNNING": f"{INTERRUPTED}: still RUNNING in MLflow when it was read",
    "SCHEDULED": f"{INTERRUPTED}: SCHEDULED in MLflow and never run",
}


def runs(source: Path) -> Iterator[Logged]:
    """Yield the runs of a database, or of every mlflow.db below a folder."""
    for path in below(source, "mlflow.db"):
        with database(path, "MLflow") as opened:
            for uuid, name, status, began, ended in opened.execute(_RUNS).fetchall():
                yield Logged(
                    name=name or uuid,
                    points=_points(opened, uuid),
                    params=dict(opened.execute(_PARAMS, (uuid,)).fetchall()),
                    began=None if began is None else began / 1000,
                    ended=None if ended is None else ended / 1000,
                    failure=_FAILURES.get(status),
                )


def _points(opened: sqlite3.Connection, uuid: str) -> tuple[Point, ...]:
    """Return what was logged at each step, at the latest time of its numbers."""
    values: dict[int, dict[str, float]] = {}
    times: dict[int, float] = {}
    for key, value, timestamp, step in opened.execute(_METRICS, (uuid,)):
        values.setdefault(step, {})[key] = value
        times[step] = max(timestamp / 1000, times.get(step, 0.0))
    return tuple(Point(values[step], step, times[step]) for step in sorted(values))
