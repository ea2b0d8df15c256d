"""Hugging Face Trainer: the log_history of trainer_state.json.

Rows have no time of their own. The whole takes `train_runtime`, which a finished run
writes with `trainer.save_state()`, and each evaluation takes its `eval_runtime`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from pydantic_core import from_json

from cotune.errors import InvalidFile
from cotune.interop.logged import Logged, Point, below

_NAME = "trainer_state.json"
_BATCH = "train_batch_size"


def runs(source: Path) -> Iterator[Logged]:
    """Yield the run of a state file; below a folder that has one of the whole run, checkpoints are left out."""
    paths = below(source, _NAME)
    whole = [path for path in paths if not path.parent.name.startswith("checkpoint-")]
    for path in whole or paths[-1:]:
        state = _state(path)
        history: list[dict[str, Any]] = state["log_history"]
        seconds = [row["train_runtime"] for row in history if "train_runtime" in row]
        evaluations = [row["eval_runtime"] for row in history if "eval_runtime" in row]
        yield Logged(
            name=path.parent.name,
            points=tuple(_point(row) for row in history if "train_runtime" not in row),
            params={"batch_size": state[_BATCH]} if _BATCH in state else {},  # older ones do not tell it
            seconds=float(seconds[-1]) if seconds else None,
            evaluation=median(evaluations) if evaluations else None,
        )


def _state(path: Path) -> dict[str, Any]:
    try:
        state = from_json(path.read_bytes())
    except ValueError as error:
        raise InvalidFile(f"{path} is not JSON: {error}") from None
    if not isinstance(state, dict) or "log_history" not in state:
        raise InvalidFile(f"{path} has no log_history: it is not the state of a Trainer")
    return state


def _point(row: dict[str, Any]) -> Point:
    numbers = {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
    return Point(numbers, row["step"], epoch=row["epoch"])
