"""Ray Tune: the result.json of each trial, one line per report.

A report is an epoch unless it says `epoch` itself; its time is Tune's own total.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from cotune.errors import InvalidFile
from cotune.interop.logged import Logged, Point, below
from cotune.types import Failure

_OWN = (
    *("timestamp", "time_total_s", "time_this_iter_s", "training_iteration", "time_since_restore"),
    *("iterations_since_restore", "pid"),
)


def runs(source: Path) -> Iterator[Logged]:
    """Yield the trials of a result.json, or of all below a folder."""
    for path in below(source, "result.json"):
        told, torn = _rows(path)
        rows = [row for row in told if "training_iteration" in row]
        if not rows:
            continue
        began = rows[0]["timestamp"] - rows[0]["time_total_s"]
        crash = path.with_name("error.txt")
        yield Logged(
            name=path.parent.name,
            points=tuple(_point(row, began) for row in rows),
            params=dict(rows[-1].get("config", {})),
            began=began,
            failure=Failure(crash.read_text(errors="replace").strip().splitlines()[-1]) if crash.is_file() else None,
            warning="the last report is torn: the trial was killed, or still writes" if torn else None,
        )


def _rows(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """Return the reports, and whether the last one is torn."""
    rows: list[dict[str, Any]] = []
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        for place, line in enumerate(lines):
            try:
                rows.append(from_json(line))
            except ValueError:
                if place + 1 < len(lines) or not rows:
                    raise
                return rows, True
    except ValueError as error:
        raise InvalidFile(f"{path} is not of Ray Tune: {error}") from None
    return rows, False


def _point(row: dict[str, Any], began: float) -> Point:
    told = {name: float(value) for name, value in row.items() if type(value) in (int, float) and name not in _OWN}
    done = None if "epoch" in told else float(row["training_iteration"])
    return Point(told, row["training_iteration"], began + row["time_total_s"], done)
