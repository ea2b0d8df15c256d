"""Real launches for the tests of engines: a script, a folder, and the events until the end."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from cotune.run.engines.local import Local
from cotune.run.launch import Launch
from cotune.types import Config, Job

from launching import Make, Play, player  # isort: skip


@pytest.fixture
def launch(tmp_path: Path) -> Make:
    """Return a function that makes a launch of a script given as text, or of a command."""

    def make(
        script: str = "",
        *,
        workers: int = 1,
        batch_size: int = 4,
        command: tuple[str, ...] | None = None,
        job: Job | None = None,
        config: Config | None = None,
        name: str = "launch",
        **rest: object,
    ) -> Launch:
        (tmp_path / "train.py").write_text(textwrap.dedent(script))
        job = replace(job or Job("test"), command=command or (sys.executable, "train.py"), folder=str(tmp_path))
        config = config or Config.data_parallel(batch_size, workers)
        return Launch(name, job, config, folder=tmp_path / "runs" / name, **{"epochs": 1, **rest})  # type: ignore[arg-type]

    return make


@pytest.fixture
def play(local: Local, launch: Make) -> Play:
    """Return a function that runs a launch to its end."""
    return player(local, launch)
