"""MLflow: the runs of its SQLite file, read by SQL alone.

Of the many tables only `runs`, `metrics` and `params` are read. Times are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cotune.interop.logged import Logged, below, by_step, database
from cotune.types import Failure

_RUNS = "SELECT run_uuid, name, status, start_time, end_time FROM runs WHERE lifecycle_stage = 'active'"
_METRICS = "SELECT key, value, timestamp, step FROM metrics WHERE run_uuid = ? AND is_nan = 0 ORDER BY step, timestamp"
_PARAMS = "SELECT key, value FROM params WHERE run_uuid = ?"
_FAILURES = {
    "FAILED": Failure("ended as FAILED in MLflow"),
    "KILLED": Failure.interrupted("KILLED in MLflow"),
    "RUNNING": Failure.interrupted("still RUNNING in MLflow when it was read"),
    "SCHEDULED": Failure.interrupted("SCHEDULED in MLflow and never run"),
}


def runs(source: Path) -> Iterator[Logged]:
    """Yield the runs of a database, or of every mlflow.db below a folder."""
    for path in below(source, "mlflow.db"):
        with database(path, "MLflow") as opened:
            for uuid, name, status, began, ended in opened.execute(_RUNS).fetchall():
                metrics = opened.execute(_METRICS, (uuid,)).fetchall()
                yield Logged(
                    name=name or uuid,
                    points=by_step((step, key, value, at / 1000) for key, value, at, step in metrics),
                    params=dict(opened.execute(_PARAMS, (uuid,)).fetchall()),
                    began=None if began is None else began / 1000,
                    ended=None if ended is None else ended / 1000,
                    failure=_FAILURES.get(status),
                )
