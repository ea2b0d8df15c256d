"""The project of a job file, or of a recording: what `cotune.open` returns."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from cotune.display import Display
from cotune.jobfile import settings as job_settings
from cotune.project.plan_request import PlanRequest, as_job_file
from cotune.project.project import Project
from cotune.recording.replayed import ReplayedJob
from cotune.store import Store


def open_project(
    file: str | Path | None = None,
    *,
    recording: str | Path | None = None,
    store: Store | str | Path | None = None,
    display: Display | None = None,
    **asked: Unpack[PlanRequest],
) -> Project:
    """Return the project of a job file (by default the nearest `cotune.yaml`), or of a recording to replay.

    What is asked is laid over what the file says, as flags are on the command line.
    """
    said = as_job_file(asked)
    if recording is not None:
        replayed = ReplayedJob.open(Path(recording), said, Path(file) if file else None)
        return Project(replayed=replayed, store=store, display=display)
    path = Path(file) if file is not None else job_settings.find(Path.cwd())
    if path is None:
        raise job_settings.no_job_file(Path.cwd())
    if path.is_dir():
        path /= job_settings.FILE_NAME
    settings = job_settings.load(path, said)
    return Project(settings=settings, store=store, folder=path.absolute().parent, display=display)
