"""Jobs submitted to `cotune serve`, each with what its samples tell of every config."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from sqlalchemy import URL

from cotune.checkpoints import has_checkpoint, is_own
from cotune.cli.options import runs_folder
from cotune.cli.output import note
from cotune.cli.remedies import explained
from cotune.cluster.live_job import LiveJob
from cotune.cluster.service.device_types import alike
from cotune.cluster.service.planned_job import PlannedJob
from cotune.display import Terminal
from cotune.errors import CotuneError, Infeasible, InvalidFile, NotFound, UsageError
from cotune.identity import new_id
from cotune.jobfile import settings as job_settings
from cotune.jobfile.settings import Settings
from cotune.project.project import Project
from cotune.store import Store
from cotune.store.location import RUNS, locate, work_folder
from cotune.types import Job, Sample


class Stores(ExitStack):
    """The store of each job: the one that is named for all, else that of the project its job file is in."""

    def __init__(self, named: str | None) -> None:
        super().__init__()
        self._named = named
        self._open: dict[URL, Store] = {}

    def of(self, job: Job) -> Store:
        """Return the store that `cotune plan` would use where the job is."""
        url = locate(self._named, Path(job.folder))
        if url not in self._open:
            self._open[url] = Store(url)
            self.callback(self._open[url].close)
        return self._open[url]

    def save(self, job: Job, sample: Sample) -> None:
        """Keep a sample with the others of its job."""
        self.of(job).save(job, sample)


class Intake:
    """Where jobs are submitted: those named at first, and those that come into the queue's folder."""

    def __init__(
        self,
        stores: Stores,
        first: Sequence[Settings],
        queue: Path | None,
        *,
        engine: str | None,
        slots: int | None,
        seed: int,
    ) -> None:
        self._stores, self._queue, self._engine, self._seed = stores, queue, engine, seed
        self._waiting = list(first)
        self._taken: set[Path] = set()
        self._unreadable: dict[Path, float] = {}  # and when each was last written
        self.declined: list[dict[str, str]] = []
        self._names: set[str] = set()
        self._gone_on: set[str] = set()  # runs
        if queue is not None and not queue.is_dir():
            raise NotFound(f"no folder {queue} to take jobs from")
        self._look()
        if not self._waiting:
            raise UsageError(f"no job file in {queue} yet: the first one tells the engine and the device")
        self.like = self._waiting[0]
        self.slots = slots or _slots(self.like)
        first_type = replace(self.like.cluster.devices[0], count=self.slots)
        self.cluster = replace(self.like.cluster, devices=(first_type,))
        self.pool = alike(self.slots)

    def arrivals(self, now: float) -> list[LiveJob] | None:
        """Return the jobs that were submitted since; None when none will be."""
        self._look()
        if not self._waiting and self._queue is None:
            return None
        found = []
        for settings in self._waiting:
            try:
                found.append(self._arriving(settings, now))
            except CotuneError as error:
                others = len(self._waiting) > 1 and isinstance(error, Infeasible)  # who can do without this one
                if self._queue is None and not others:
                    raise
                self._decline(settings.job.name, error)
        self._waiting = []
        return found

    def _look(self) -> None:
        """Take in the job files that have come into the queue's folder, and unreadable ones that have changed."""
        for path in sorted(self._queue.glob("*.yaml")) if self._queue else ():
            try:
                written = path.stat().st_mtime
            except FileNotFoundError:  # taken away since it was listed
                continue
            if path in self._taken or self._unreadable.get(path) == written:
                continue
            self.declined = [one for one in self.declined if one["job"] != path.name]
            try:
                self._waiting.append(settings_of(path, self._engine))
                self._taken.add(path)
            except CotuneError as error:
                self._decline(path.name, error)
                self._unreadable[path] = written

    def _decline(self, name: str, error: CotuneError) -> None:
        self.declined.append({"job": name, "reason": explained(error)})
        note(f"declined {name}: {explained(error)}")

    def _arriving(self, settings: Settings, now: float) -> LiveJob:
        """Return a job with what its samples tell of every config; refuse one that could not meet its goal alone."""
        if settings.engine != self.like.engine or settings.cluster.devices[0].name != self.cluster.devices[0].name:
            here = f"{self.like.engine} with {self.cluster.devices[0].name}"
            raise UsageError(
                f"it asks for {settings.engine} with {settings.cluster.devices[0].name}; served here is {here}"
            )
        name = settings.job.name
        while name in self._names:
            name += "'"
        self._names.add(name)
        here_only, store = replace(settings, cluster=self.cluster), self._stores.of(settings.job)
        planned = PlannedJob.learn(Project(settings=here_only, store=store, display=Terminal()), self._seed)
        deadline = None if planned.goal.deadline is None else now + planned.goal.deadline
        submission = planned.submission(name, submit=now, deadline=deadline)
        before = self._before(planned.job, name)
        if before is None:
            return LiveJob.arriving(planned, submission, runs_folder() / new_id())
        return LiveJob.arriving(planned, submission, Path(before.folder), (before,))

    def _before(self, job: Job, name: str) -> Sample | None:
        """Return a run that was cut short and left a checkpoint; a job submitted twice resumes from it once."""
        left = self._stores.of(job).unfinished_runs(job)
        cut_short = (run for run in left if not run.failed and run.id not in self._gone_on)
        own = (runs_folder(), work_folder(Path(job.folder)) / RUNS)
        before = next((run for run in cut_short if is_own(run.folder, *own) and has_checkpoint(run.folder)), None)
        if before is not None:
            self._gone_on.add(before.id)
            note(f"{name} resumes from run {before.id}, which trained {before.epochs:.3g} epochs")
        return before


def settings_of(path: Path, engine: str | None) -> Settings:
    """Return what a job file says, or the one in a folder; it must have something to run."""
    file = path / job_settings.FILE_NAME if path.is_dir() else path
    require_regular(file)
    settings = job_settings.load(file, {"engine": engine})
    if not settings.job.command:
        raise NotFound(f"{path} has no command to run: say `run:`")
    return settings


def _slots(settings: Settings) -> int:
    """Return the workers there are: as many as the device that is served, else emulated nodes, else cores."""
    nodes = settings.engine_settings.get("nodes")
    return settings.cluster.devices[0].count or (nodes if isinstance(nodes, int) else len(os.sched_getaffinity(0)))


def require_regular(path: Path) -> None:
    """Refuse to read what is there and no file; one that is not there is for its reader to tell."""
    if path.exists() and not path.is_file():
        raise InvalidFile(f"{path} is not a regular file")
