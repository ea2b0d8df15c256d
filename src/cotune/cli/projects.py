"""The project of a verb: of the job file and flags, or of a recording; its progress on stderr."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cotune.cli.options import open_store
from cotune.display import Terminal
from cotune.jobfile.settings import Settings
from cotune.project.project import Project
from cotune.recording.replayed import ReplayedJob


@contextmanager
def job_project(settings: Settings, store: str | None, *, reading: bool = False) -> Iterator[Project]:
    """Yield the project of a live job; with `reading` a store that is named must be there."""
    with open_store(store, reading=reading) as opened:
        yield Project(settings=settings, store=opened, display=Terminal())


@contextmanager
def recorded_project(
    folder: Path, asked: Mapping[str, Any], store: str | None, file: Path | None = None, seed: int = 0
) -> Iterator[Project]:
    """Yield the project of a recording; its samples stay in memory unless a store is named."""
    with Project(replayed=ReplayedJob.open(folder, asked, file, seed), store=store, display=Terminal()) as project:
        yield project
