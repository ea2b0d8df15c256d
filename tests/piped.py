"""What a pipeline that a test ran has left behind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cotune.run.launch import Ended

WATCHED = (
    *("--model", "watched:network", "--data", "zipf:6x50", "--batch-size", "24", "--lanes", "2", "--batches", "20"),
    *("--mode", "sync", "--micro-batches", "2", "--optimiser", "adagrad", "--lr", "0.05"),
)


def watched_in(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let pipelines that are started from a folder find the network of `watched.py` there."""
    (folder / "watched.py").write_text((Path(__file__).parent / "watched.py").read_text())
    patch.chdir(folder)


@dataclass(frozen=True)
class Piped:
    """How it ended, and the folder of its files."""

    ended: Ended
    folder: Path

    @property
    def result(self) -> dict[str, Any]:
        assert self.ended.outcome == "done", self.ended
        found: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return found

    @property
    def losses(self) -> list[float]:
        return [float(loss) for loss in self.result["losses"]]
