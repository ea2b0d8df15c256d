"""What a pipeline that a test ran has left behind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotune.run.launch import Ended


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
