"""A job file as it was when it was submitted: its text, the folder it stands in, and what the flags laid over it.

Paths in the file are relative to that folder, and its samples are those of the project there. Later changes of the
file do not reach a job that waits. Only a regular file of a sane size is read, so that nobody waits for a pipe.

The samples of that project are brought along where the queue has another store (`adopt_samples`): whoever has profiled
there need not be measured again. They keep their ids, and a copy that is there already changes nothing.
"""

from __future__ import annotations

import getpass
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from cotune.errors import CotuneError, InvalidFile, NotFound
from cotune.jobfile import settings as job_settings
from cotune.jobfile.metric import as_measured
from cotune.jobfile.settings import Settings
from cotune.run.command import is_python, python_target
from cotune.safety.printable import printable
from cotune.store import Store, open_store, work_folder
from cotune.store.location import FILE
from cotune.types import Goal, Job

MOST_BYTES = 1 << 20  # of a job file


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """What was submitted, by whom, and the parts of it that a list of jobs shows."""

    text: str
    folder: str
    source: str  # the path it was read from, for messages
    asked: Mapping[str, Any] = field(default_factory=dict)  # by the keys of the job file
    user: str = ""
    name: str = ""
    team: str = ""
    priority: int = 0
    target: Mapping[str, Any] | None = None
    deadline: float | None = None

    @classmethod
    def take(cls, path: Path, asked: Mapping[str, Any] | None = None) -> tuple[Self, Settings]:
        """Read a job file, or the one in a folder, and return what it says too; refuse what could not be run."""
        file = path / job_settings.FILE_NAME if path.is_dir() else path
        text = _text(file)
        taken, settings = cls.written(text, file.absolute().parent, str(file.absolute()), asked)
        _require_script(settings.job, file.absolute())
        return taken, settings

    @classmethod
    def written(
        cls, text: str, folder: Path, source: str, asked: Mapping[str, Any] | None = None
    ) -> tuple[Self, Settings]:
        """Take the text of a job file as that of one in a folder, and return what it says too."""
        if len(text.encode()) > MOST_BYTES:
            raise InvalidFile(f"{source}: a job file has at most {MOST_BYTES >> 10} KiB")
        given = {key: value for key, value in (asked or {}).items() if value is not None}
        if not folder.is_dir():
            raise NotFound(f"no folder {folder} for the paths of {source}")
        settings = _loaded(text, given, source, folder)
        if not settings.job.command:
            raise InvalidFile(f"{source} has no command to run: say `run:`")
        taken = cls(
            text,
            str(folder.resolve()),
            source,
            given,
            _user(),
            settings.job.name,
            settings.team,
            settings.priority,
            _target(settings.job, settings.goal),
            settings.goal.deadline,
        )
        return taken, settings

    @property
    def named(self) -> str:
        """Return the name that a verb in the job's folder must be given; none where it finds the file by itself."""
        source = Path(self.source)
        return "" if source.name == job_settings.FILE_NAME or not source.is_file() else source.name

    def settings(self) -> Settings:
        """Parse the file again, where its job is to run: which devices there are depends on the machine."""
        return _loaded(self.text, self.asked, self.source, Path(self.folder))


def _text(file: Path) -> str:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound(f"no job file at {file}; `cotune init` writes one") from None
    except OSError as error:
        raise InvalidFile(f"cannot read {file}: {error.strerror}") from None
    with os.fdopen(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise InvalidFile(f"{file} is not a regular file")
        read = opened.read(MOST_BYTES + 1)
    if len(read) > MOST_BYTES:
        raise InvalidFile(f"{file}: a job file has at most {MOST_BYTES >> 10} KiB")
    try:
        return read.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidFile(f"cannot read {file}: {error}") from None


def _loaded(text: str, asked: Mapping[str, Any], source: str, folder: Path) -> Settings:
    """Return settings; whatever a hostile file does to its reader is told as its fault."""
    try:
        return job_settings.loads(text, asked, source, folder)
    except CotuneError:
        raise
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        words = printable(" ".join(str(error).split()))[:200] or type(error).__name__
        raise InvalidFile(f"{source}: not a job file ({words})") from None


def _require_script(job: Job, file: Path) -> None:
    """Refuse a job whose Python script is not there: whoever submits it can say what was meant."""
    script = python_target(job.command[1:])[0] if is_python(job.command[0]) else None
    if script is not None and "{" not in script and not (Path(job.folder) / script).is_file():
        raise NotFound(f"no script {script!r} in {job.folder}; paths in {file.name} are relative to its own folder")


def _target(job: Job, goal: Goal) -> dict[str, Any] | None:
    if goal.target is None:
        return None
    return {"metric": job.metric, "at_least" if job.better == "higher" else "at_most": goal.target}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def adopt_samples(store: Store, settings: Settings) -> int:
    """Copy the ended samples of the project that a job is in; return how many there were."""
    own = work_folder(Path(settings.job.folder)) / FILE
    if not own.is_file() or str(store.url.database) == str(own):
        return 0
    try:
        with open_store(str(own)) as project:
            job = as_measured(settings, project).job
            known = {sample.id for sample in store.samples(job)}
            fresh = [sample for sample in project.samples(job) if sample.ended and sample.id not in known]
    except CotuneError:  # it cannot be read: the job is measured by the service
        return 0
    for sample in fresh:
        store.save(job, sample)
    return len(fresh)
