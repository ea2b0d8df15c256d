"""The job's side of the contract: one line that tells cotune what happened.

    if cotune.report(epoch=epoch, accuracy=accuracy):
        break

Without cotune around it this does nothing and costs nothing. Under cotune each rank
appends JSON lines to the file named by COTUNE_REPORT. The answer is true when the run
should stop: the target of COTUNE_TARGET is met, or the file COTUNE_STOP is there.
Only the standard library is used, so importing it is cheap in any training script.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import SupportsFloat

TERMS = ("compute", "communication", "input", "evaluation", "checkpoint")
_QUIET_SECONDS = 0.02  # progress without accuracy is told at most this often

_last_told = 0.0


def report(
    epoch: SupportsFloat | None = None,
    accuracy: SupportsFloat | None = None,
    **numbers: SupportsFloat,
) -> bool:
    """Tell how many epochs of data were seen and how good the model is; return true to stop.

    `epoch` may be fractional (0.25 after a quarter of the data). Further numbers named
    after a term (`evaluation`, `checkpoint`, `compute`, `communication`, `input`) are
    seconds spent on it since the last report; all others are metrics. A first
    `report(epoch=0)` just before the first step tells start-up apart from training.
    Where the job's target is on another metric (`loss`), the number of that name counts.
    """
    path = os.environ.get("COTUNE_REPORT")
    if path is None:
        return False
    accuracy = numbers.get(os.environ.get("COTUNE_METRIC", ""), accuracy)
    _tell(path, epoch, accuracy, numbers)
    return _met(accuracy) or os.path.exists(os.environ.get("COTUNE_STOP", ""))  # noqa: PTH110  # no pathlib: import cost


def _tell(
    path: str, epoch: SupportsFloat | None, accuracy: SupportsFloat | None, numbers: dict[str, SupportsFloat]
) -> None:
    global _last_told  # noqa: PLW0603  # the one place where a process remembers when it last spoke
    now = time.monotonic()
    if accuracy is None and not numbers and now - _last_told < _QUIET_SECONDS:
        return
    _last_told = now
    line = {
        "at": now,
        "epoch": None if epoch is None else float(epoch),
        "accuracy": None if accuracy is None else float(accuracy),
        "terms": {name: float(value) for name, value in numbers.items() if name in TERMS},
        "metrics": {name: float(value) for name, value in numbers.items() if name not in TERMS},
    }
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
        finally:
            os.close(file)
    except OSError as error:  # training must outlive a full disk; the engine sees the silence
        print(f"cotune: cannot report: {error}", file=sys.stderr)


def _met(accuracy: SupportsFloat | None) -> bool:
    target = os.environ.get("COTUNE_TARGET")
    if target is None or accuracy is None:
        return False
    sign = -1 if os.environ.get("COTUNE_BETTER") == "lower" else 1
    return sign * float(accuracy) >= sign * float(target)
