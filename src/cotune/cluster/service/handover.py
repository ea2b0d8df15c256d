"""Jobs between the queue and the live world: as they arrive with their plans and starts, and as they end.

One may have come to its end while no service ran: a service may be killed between the last step of a training and the
note of it. The worker's own record says whether it ended well, and its reports how far it came; if nothing was left to
train, the job is over and not run again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cotune.cluster.service.job_files import run_folder
from cotune.cluster.service.live_job import LiveJob
from cotune.cluster.service.planned_job import PlannedJob
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueuedJob
from cotune.cluster.service.states import State
from cotune.documents import config_document
from cotune.errors import CotuneError
from cotune.plan.rates import cost_of
from cotune.run.launch import Reported
from cotune.run.local.messages import Record
from cotune.run.tail import Tail, from_report
from cotune.run.training import asks, missed
from cotune.store import Store
from cotune.types import Cluster, Evaluation, Job, Sample
from cotune.units import duration


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


def outcome_of(job: LiveJob, seconds: float) -> tuple[State, str]:
    """Return what became of a job `seconds` after it was submitted."""
    sample, goal, cluster = job.whole, job.planned.goal, job.planned.cluster
    if job.active.declined:
        return State.DECLINED, "its deadline cannot be kept beside the others'"
    if job.failure is not None or sample is None:
        return State.FAILED, str(job.failure or "it never started")
    waited = max(seconds - sample.seconds, 0.0)
    cost = cost_of(job.all_starts, cluster)
    short = missed(job.planned.job, goal, sample, seconds=seconds, cost=cost, unit=cluster.unit)
    if short:
        return State.MISSED, short
    after = f"after {duration(seconds)}, {duration(waited)} of it waiting or being measured"
    return (State.MET, f"goal met {after}") if asks(goal) else (State.DONE, f"done {after}")


def conclude(queue: Queue, queued: QueuedJob, job: LiveJob) -> None:
    """Write what a job took and reached, beside what was forecast of it."""
    seconds = queue.now() - queued.submitted
    state, words = outcome_of(job, seconds)
    queue.become(queued.id, state, words, result=_result(job, seconds))


def decline(queue: Queue, queued: QueuedJob, left: float) -> None:
    """Turn a job away that could be promised to end so many seconds from now; infinite where nothing could be."""
    words = "its deadline cannot be kept beside the others'"
    nearest = None
    if math.isfinite(left):
        whole = left + queue.now() - queued.submitted
        nearest = {"deadline": whole, "unit": "s"}
        words += f"; nearest: a deadline of {duration(whole)}"
    queue.become(queued.id, State.DECLINED, words, result={"nearest": nearest})


def _result(job: LiveJob, seconds: float) -> dict[str, Any]:
    sample, starts, cluster = job.whole, job.all_starts, job.planned.cluster
    trained = sum(start.seconds for start in starts)
    return {
        "seconds": seconds,
        "trained_seconds": trained,
        "waited_seconds": max(seconds - trained, 0.0),
        "starts": len(starts),
        "epochs": sample.epochs if sample else 0.0,
        "accuracy": sample.accuracy if sample else None,
        "config": config_document(sample.config) if sample else None,
        "cost": {"value": cost_of(starts, cluster), "unit": cluster.unit},
        "samples": [start.id for start in starts],
        "forecast": job.planned.forecast.get("forecast"),
    }
