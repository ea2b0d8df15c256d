"""A project that was moved or copied: its store knows its jobs by the folder that they were in.

    /a/tut/.cotune/store.db, job in /a/tut   ─ cp -r, mv ─▶   /b/tut2/.cotune/store.db, job in /b/tut2

The folder is a part of what a job is, since two folders may hold two scripts of one name. A store that lies in the
project's own folder went with it; where it knows a job that is the same in all but a folder outside of the project, at
the same place in another one, the rows are this job's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Connection, and_, delete, select, update

from cotune.store.database import KnownJob, Store
from cotune.store.inserts import of_job
from cotune.store.location import FILE, PROJECT_FOLDER, is_read_only, work_folder
from cotune.store.schema import jobs, plans, samples
from cotune.types import Job
from cotune.units import counted


@dataclass(frozen=True, slots=True)
class _Moved:
    """A job as a store knows it from another folder, as it is now, and the project's folders then and now."""

    known: KnownJob
    job: Job
    before: Path
    now: Path


def bring_along(store: Store, job: Job) -> str | None:
    """Give a job the rows that its project's store has of it from another folder; return what was done, in words."""
    root = _project_of(store, job)
    found = list(_moved(store, job, root)) if root is not None else []
    if not found:
        return None
    stays = "it cannot be written" if is_read_only(store.url) else ""
    if any(not sample.ended for moved in found for sample in store.samples(moved.known)):
        stays = "one of its starts still runs"
    if stays:
        return f"{store.label} has samples of {job.name} in {found[0].before}, which stay there: {stays}"
    with store.writing() as connection:
        many = sum(_bring(connection, moved) for moved in found)
    was = f"this project was in {found[0].before} before"
    return f"{was}: {counted(many, 'sample')} of {job.name} came along, and its plans"


def _project_of(store: Store, job: Job) -> Path | None:
    """Return the folder of the project that a job is in, if the store is that project's own."""
    own, database = work_folder(Path(job.folder)), Path(store.url.database or "")
    in_file = store.url.get_backend_name() == "sqlite" and database.is_file() and Path(job.folder).is_absolute()
    found = in_file and own.name == PROJECT_FOLDER and (own / FILE).is_file()
    return own.parent if found and database.samefile(own / FILE) else None


def _moved(store: Store, job: Job, root: Path) -> Iterator[_Moved]:
    """Yield the jobs that equal a job in all but the folder, by whatever metric, and are not known where it is now."""
    known = store.jobs()
    here = {(one.name, one.fingerprint) for one in known}
    for one in known:
        now = replace(job, metric=one.definition.metric, better=one.definition.better)
        same = (one.name, one.fingerprint) == (job.name, replace(now, folder=one.definition.folder).fingerprint)
        before = _root_of(Path(one.definition.folder), Path(job.folder).relative_to(root))
        outside = before is not None and not Path(one.definition.folder).is_relative_to(root)
        if before is not None and same and outside and (now.name, now.fingerprint) not in here:
            yield _Moved(one, now, before, root)


def _root_of(folder: Path, place: Path) -> Path | None:
    """Return the folder in which another one is at a place; None where it is at none such."""
    root = Path(*folder.parts[: len(folder.parts) - len(place.parts)])
    return root if folder.is_absolute() and root / place == folder else None


def _bring(connection: Connection, moved: _Moved) -> int:
    """Write a job's rows, and where its starts left their files, to where it is now; return how many samples."""
    known, new = moved.known, moved.job.fingerprint
    own_job = and_(jobs.c.name == known.name, jobs.c.fingerprint == known.fingerprint)
    own = of_job(samples, known.name, known.fingerprint)
    row = connection.execute(select(jobs).where(own_job)).one()._asdict()
    definition = {**row["definition"], "folder": moved.job.folder}
    connection.execute(jobs.insert(), {**row, "fingerprint": new, "definition": definition})
    for id, folder in connection.execute(select(samples.c.id, samples.c.folder).where(own)).all():
        values = {"fingerprint": new, "folder": _here(folder, moved)}
        connection.execute(update(samples).where(samples.c.id == id).values(values))
    connection.execute(update(plans).where(of_job(plans, known.name, known.fingerprint)).values(fingerprint=new))
    connection.execute(delete(jobs).where(own_job))
    return known.samples


def _here(folder: str, moved: _Moved) -> str:
    """Return where the files of a start are now that were in a folder of the project."""
    path = Path(folder)
    return str(moved.now / path.relative_to(moved.before)) if path.is_relative_to(moved.before) else folder
