"""How a job ended: in one word and a line, as JSON beside what was forecast, and as the queue keeps both."""

from __future__ import annotations

import math
from typing import Any

from cotune.cluster.live_job import LiveJob
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueuedJob
from cotune.cluster.service.states import State
from cotune.documents import config_document
from cotune.plan.rates import cost_of
from cotune.run.training import asks, missed
from cotune.units import duration


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
