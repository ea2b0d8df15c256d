"""Jobs of the queue as the live world takes them: with their plans, and with the starts that they have made.

One may have come to its end while nobody listened: a service may be killed between the last step of a training and the
note of it. The worker's own record says whether it ended well, and its reports how far it came; if nothing was left to
train, the job is over and not run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cotune.cluster.live_job import LiveJob
from cotune.cluster.service.planned_job import PlannedJob
from cotune.cluster.service.preparers import run_folder
from cotune.cluster.service.queued import QueuedJob
from cotune.errors import CotuneError
from cotune.run.launch import Reported
from cotune.run.local.messages import Record
from cotune.run.tail import Tail, from_report
from cotune.store import Store
from cotune.types import Cluster, Evaluation, Job, Sample


def arriving(
    job: QueuedJob, planned: PlannedJob, cluster: Cluster, store: Store, *, submit: float, best_effort: bool
) -> LiveJob:
    """Return a job that was submitted at a time of the world's clock; with `best_effort` no deadline is promised."""
    submission = planned.submission(
        job.id,
        submit=submit,
        deadline=None if best_effort or job.deadline is None else submit + job.deadline,
        cluster=cluster,
        team=job.team,
        priority=job.priority,
    )
    folder = run_folder(job)
    asked = replace(planned, goal=replace(planned.goal, deadline=job.deadline))
    return LiveJob.arriving(asked, submission, folder, _earlier_starts(store, planned.job, folder))


def completed(store: Store, job: QueuedJob) -> LiveJob | None:
    """Return a job as it ended, if its last start ended well with nothing left to train; None where it must go on."""
    folder = run_folder(job)
    if job.belief is None or job.status.cancelling or not folder.is_dir():
        return None
    try:
        planned = PlannedJob.of(job.belief)
        record = Record.read(folder, 0)
    except (CotuneError, ValueError, KeyError, TypeError):
        return None
    starts = _earlier_starts(store, planned.job, folder)
    if record is None or record.status != "done" or not starts:
        return None
    last = _as_reported(starts[-1], _reports(job))
    asked = replace(planned, goal=replace(planned.goal, deadline=job.deadline))
    submission = planned.submission(job.id, submit=0.0, deadline=None)  # nobody decides about it any more
    ended = LiveJob.arriving(asked, submission, folder, (*starts[:-1], last))
    if not ended.finished:
        return None
    store.save(planned.job, last)
    return ended


def _earlier_starts(store: Store, job: Job, folder: Path) -> tuple[Sample, ...]:
    """Return the starts for good that a job has made in its folder, oldest first."""
    return tuple(sample for sample in store.samples(job, "run") if sample.folder == str(folder))


def _reports(job: QueuedJob) -> Iterator[Reported]:
    """Yield all that rank 0 has reported in a job's folder."""
    for line in Tail(run_folder(job) / "rank-0.jsonl", whole=True).lines(last=True):
        said = from_report(job.id, line)
        if said is not None:
            yield said


def _as_reported(sample: Sample, reports: Iterator[Reported]) -> Sample:
    """Return the last start with what it reported after the last word that was heard, its interruption forgiven."""
    curve, epochs = list(sample.curve), sample.epochs
    for said in reports:
        if said.epoch is None or said.epoch <= epochs:
            continue
        epochs = said.epoch
        if said.accuracy is not None:
            curve.append(Evaluation(said.epoch, said.accuracy, sample.seconds, said.metrics))
    accuracy = curve[-1].accuracy if curve else sample.accuracy
    return replace(sample, epochs=epochs, curve=tuple(curve), accuracy=accuracy, failure=None, ended=True)
