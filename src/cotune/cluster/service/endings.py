"""The end of a job, written into the queue: what became of one that ran, and how near one came that is turned away."""

from __future__ import annotations

import math

from cotune.cluster.live_job import Serving
from cotune.cluster.service.belief import Belief
from cotune.cluster.service.outcomes import outcome_of, result_document
from cotune.cluster.service.queued import QueuedJob
from cotune.cluster.service.states import State
from cotune.cluster.service.term import TermQueue
from cotune.units import duration


def conclude(notes: TermQueue, job: QueuedJob, served: Serving, belief: Belief) -> None:
    """Write what a job took and reached, beside what was forecast of it."""
    seconds = notes.queue.now() - job.submitted
    state, words = outcome_of(served, belief.cluster, seconds)
    result = result_document(served, belief.cluster, belief.forecast, seconds)
    notes.become(job.id, state, words, result=result)


def decline(notes: TermQueue, job: QueuedJob, left: float) -> None:
    """Turn a job away that could be promised to end so many seconds from now; infinite where nothing could be."""
    words = "its deadline cannot be kept beside the others'"
    nearest = None
    if math.isfinite(left):
        whole = left + notes.queue.now() - job.submitted
        nearest = {"deadline": whole, "unit": "s"}
        words += f"; nearest: a deadline of {duration(whole)}"
    notes.become(job.id, State.DECLINED, words, result={"nearest": nearest})
