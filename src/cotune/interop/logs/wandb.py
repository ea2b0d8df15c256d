"""Weights & Biases: run files, offline ones too, as its own `wandb leet inspect --json` prints them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from cotune.errors import InvalidFile, NotFound
from cotune.interop.logged import Logged, Point, below
from cotune.types import Failure


def runs(source: Path) -> Iterator[Logged]:
    """Yield the runs of a .wandb file, or of all below a folder."""
    for path in below(source, "*.wandb"):
        records = _records(path)
        (head,) = (record["run"] for record in records if record["type"] == "run")
        exits = [record["exit"].get("exit_code", 0) for record in records if record["type"] == "exit"]
        rows = [record["history"]["item"] for record in records if record["type"] == "history"]
        yield Logged(
            name=head.get("display_name") or head["run_id"],
            points=tuple(Point(_numbers(row), row.get("_step"), row.get("_timestamp")) for row in rows),
            params=dict(head.get("config", {}).get("update", {})),
            began=datetime.fromisoformat(head["start_time"]).timestamp(),
            failure=_failure(exits),
        )


def _records(path: Path) -> list[dict[str, Any]]:
    program = shutil.which("wandb")
    if program is None:
        raise NotFound("run files of W&B are read by its own program: pip install 'wandb>=0.31'")
    command = [program, "leet", "inspect", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        words = (done.stderr.strip() or "it printed nothing").splitlines()[-1]
        raise InvalidFile(f"wandb cannot read {path}: {words} (wandb 0.31 or later can inspect runs)")
    return [json.loads(line) for line in lines]


def _numbers(row: dict[str, Any]) -> dict[str, float]:
    plain = {name: value for name, value in row.items() if not name.startswith("_")}
    return {name: float(value) for name, value in plain.items() if isinstance(value, int | float)}


def _failure(exits: list[int]) -> Failure | None:
    if not exits:
        return Failure.interrupted("it had not ended when it was read")
    return Failure(f"ended with exit code {exits[-1]} in W&B") if exits[-1] else None
