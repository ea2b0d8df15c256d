"""A job that came to its end while nobody listened: read from what its workers left, and not run again.

A service may be killed between the last step of a training and the note of it. The worker's own record says whether it
ended well, and its reports how far it came; if nothing was left to train, the job is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cotune.cluster.live_job import Queued, Serving
from cotune.cluster.policy import Active
from cotune.cluster.service.belief import Belief
from cotune.cluster.service.handing_over import earlier_starts
from cotune.cluster.service.preparers import run_folder
from cotune.cluster.service.queued import QueuedJob
from cotune.errors import CotuneError
from cotune.run.launch import Reported
from cotune.run.local.messages import Record
from cotune.run.tail import Tail, from_report
from cotune.store import Store
from cotune.types import Evaluation, Sample


def completed(store: Store, job: QueuedJob) -> tuple[Serving, Belief] | None:
    """Return a job as it ended, if its last start ended well with nothing left to train; None where it must go on."""
    folder = run_folder(job)
    if job.belief is None or job.standing.cancelling or not folder.is_dir():
        return None
    try:
        belief = Belief.of(job.belief)
        record = Record.read(folder, 0)
    except (CotuneError, ValueError, KeyError, TypeError):
        return None
    starts = earlier_starts(store, belief.job, folder)
    if record is None or record.status != "done" or not starts:
        return None
    last = _as_reported(starts[-1], folder_reports(job))
    submission = belief.submission(job.id, submit=0.0, deadline=None)  # nobody decides about it any more
    queued = Queued(
        belief.job, replace(belief.goal, deadline=job.deadline), submission, belief.needed, earlier=(*starts[:-1], last)
    )
    served = Serving(queued, Active(submission, 0, submission.seconds), folder)
    if not served.finished:
        return None
    store.save(belief.job, last)
    return served, belief


def folder_reports(job: QueuedJob) -> Iterator[Reported]:
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
