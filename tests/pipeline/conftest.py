"""Real pipelines for the tests: processes of the local engine, and what they left."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cotune.pipeline.placed import PLACEMENT, Placed
from cotune.run import Ended, Event, Launch
from cotune.run.local import Local
from cotune.types import Config, Job, Stage

PATIENCE = 60.0


@dataclass(frozen=True)
class Piped:
    """What a pipeline left behind."""

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


@pytest.fixture(scope="session")
def local() -> Iterator[Local]:
    engine = Local(term_seconds=1.0)
    yield engine
    engine.close()


@pytest.fixture
def pipe(local: Local, tmp_path: Path) -> Callable[..., Piped]:
    """Return a function that trains through some stages (type, units, layers) to the end."""
    started: list[str] = []

    def run(
        stages: list[tuple[str, int, int, int]], *flags: object, each: Callable[[Event], None] = lambda _: None
    ) -> Piped:
        folder = tmp_path / f"run-{len(started)}"
        started.append(str(folder))
        placed = Placed(tuple(Stage(*stage) for stage in stages))
        words = ["--result", folder / "result.json", "--save", folder / "weights", *flags]
        command = (sys.executable, "-m", "cotune.pipeline.train", *map(str, words))
        job = Job("pipeline", command, folder=str(tmp_path), env=((PLACEMENT, placed.to_json()),))
        local.start(Launch(str(folder), job, Config(1, placed.stages), 1, folder))
        while True:
            event = local.wait(PATIENCE)
            assert event is not None, "nothing happened"
            each(event)
            if isinstance(event, Ended):
                return Piped(event, folder)

    return run
