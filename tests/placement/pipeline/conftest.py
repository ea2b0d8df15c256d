"""Real pipelines for the tests: processes of the local engine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cotune.placement.pipeline.placed import PLACEMENT, Placed
from cotune.run.engines.local import Local
from cotune.run.launch import Ended, Event, Launch
from cotune.types import Config, Job, Stage
from piped import Piped

PATIENCE = 240.0


@pytest.fixture
def pipe(local: Local, tmp_path: Path) -> Callable[..., Piped]:
    """Return a function that trains through some stages (type, units, layers) to the end."""
    started: list[str] = []

    def run(
        stages: list[tuple[str, int, int, int]],
        *flags: object,
        servers: int = 0,
        each: Callable[[Event], None] = lambda _: None,
    ) -> Piped:
        folder = tmp_path / f"run-{len(started)}"
        started.append(str(folder))
        placed = Placed(tuple(Stage(*stage) for stage in stages), servers)
        words = ["--result", folder / "result.json", "--save", folder / "weights", *flags]
        command = (sys.executable, "-m", "cotune.placement.pipeline.train", *map(str, words))
        job = Job("pipeline", command, folder=str(tmp_path), env=((PLACEMENT, placed.to_json()),))
        processes = (*placed.stages, Stage("cpu", servers)) if servers else placed.stages
        local.start(Launch(str(folder), job, Config(1, processes), 1, folder))
        while True:
            event = local.wait(PATIENCE)
            assert event is not None, "nothing happened"
            each(event)
            if isinstance(event, Ended):
                return Piped(event, folder)

    return run
