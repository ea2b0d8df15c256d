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
from collections.abc import Callable
from typing import SupportsFloat

PROGRESS = ("epoch", "step", "tokens")
TERMS = ("compute", "communication", "input", "evaluation", "checkpoint")
_HELD_OUT = ("val", "valid", "validation", "eval", "test", "dev")
_QUIET_SECONDS = 0.02  # progress without accuracy is told at most this often

_last_told = 0.0
waited: Callable[[], float] | None = None  # seconds of loaders since the last report, where somebody times them


def report(
    epoch: SupportsFloat | None = None,
    accuracy: SupportsFloat | None = None,
    *,
    step: SupportsFloat | None = None,
    tokens: SupportsFloat | None = None,
    **numbers: SupportsFloat,
) -> bool:
    """Tell how many epochs of data were seen and how good the model is; return true to stop.

    `epoch` may be fractional (0.25 after a quarter of the data). A job that counts optimiser steps or tokens tells
    `step` or `tokens` instead, from its beginning and over all workers. Further numbers named
    after a term (`evaluation`, `checkpoint`, `compute`, `communication`, `input`) are
    seconds spent on it since the last report; all others are metrics. A first
    `report(epoch=0)` just before the first step tells start-up apart from training.
    Where the job's target is on another metric (`loss`), the number of that name counts, and
    no other: an accuracy of 0.2 is no loss of 0.2.
    """
    path = os.environ.get("COTUNE_REPORT")
    if path is None:
        return False
    metric = os.environ.get("COTUNE_METRIC", "accuracy")
    told = next((numbers[name] for name in (metric, as_word(metric)) if name in numbers), None)
    if told is not None:
        accuracy = told
    elif accuracy is not None and not stands_for(metric):
        numbers, accuracy = {"accuracy": accuracy, **numbers}, None
    _tell(path, {"epoch": epoch, "step": step, "tokens": tokens}, accuracy, numbers)
    return _met(accuracy) or os.path.exists(os.environ.get("COTUNE_STOP", ""))  # noqa: PTH110  # no pathlib: import cost


def warn(words: str) -> None:
    """Tell what a user should know of this start; it stands with its sample."""
    path = os.environ.get("COTUNE_REPORT")
    if path is not None:
        _write(path, {"at": time.monotonic(), "warning": words})


def as_word(metric: str) -> str:
    """Return a metric's name as Python and regular expressions can name it: `eval/loss` as `eval_loss`."""
    return "".join(letter if letter.isalnum() else "_" for letter in metric)


def stands_for(metric: str) -> bool:
    """Return whether what is called accuracy is this metric: the same word, or the same on what was held out."""
    words = as_word(metric).lower().split("_")
    return words[-1] in ("acc", "accuracy") and set(words[:-1]) <= set(_HELD_OUT)


def _tell(
    path: str,
    progress: dict[str, SupportsFloat | None],
    accuracy: SupportsFloat | None,
    numbers: dict[str, SupportsFloat],
) -> None:
    global _last_told  # noqa: PLW0603  # the one place where a process remembers when it last spoke
    now = time.monotonic()
    epoch = progress.get("epoch")
    ends = epoch is not None and float(epoch).is_integer()  # of an epoch: the last one must not be lost
    if accuracy is None and not numbers and not ends and now - _last_told < _QUIET_SECONDS:
        return
    _last_told = now
    if waited is not None and "input" not in numbers:
        numbers = {**numbers, "input": waited()}
    line: dict[str, object] = {
        "at": now,
        **{name: float(value) for name, value in progress.items() if value is not None},
        "accuracy": None if accuracy is None else float(accuracy),
        "terms": {name: float(value) for name, value in numbers.items() if name in TERMS},
        "metrics": {name: float(value) for name, value in numbers.items() if name not in TERMS},
    }
    _write(path, line)


def _write(path: str, line: dict[str, object]) -> None:
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
