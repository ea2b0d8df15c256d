"""What if this job were submitted? When it would start and end beside those that are there, and who would be moved."""

from __future__ import annotations

import math
import os
from typing import Any

from cotune.cluster.service.belief import SLOT, Belief, within_slots
from cotune.cluster.service.forecasts import Interval, Remaining, spans
from cotune.cluster.service.queue import Queue, QueuedJob
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import FINAL, State
from cotune.documents import config_document
from cotune.errors import Infeasible
from cotune.project.project import Project
from cotune.types import Cluster, Device

_NEW = "new"
_MOVED = 0.5  # seconds later that count as being moved


def foresee(queue: Queue, snapshot: JobSnapshot) -> dict[str, Any]:
    """Return start and end in seconds from now with intervals, and whose end would be later, by how much."""
    leader, now = queue.leader(), queue.now()
    rules, about = queue.rules(), dict(leader.about) if leader else {}
    name, size = rules.policy, int(about.get("slots", len(os.sched_getaffinity(0))))
    there = queue.jobs(states=set(State) - FINAL)
    planned = [job for job in there if job.belief is not None and not job.standing.held]
    unmeasured = sum(job.belief is None and not job.standing.held for job in there)
    try:
        settings = within_slots(snapshot.settings(), size)
        belief = Belief.learn(Project(settings=settings, store=queue.store, folder=snapshot.folder))
    except Infeasible as error:
        return {**_answer(name, size, None, str(error)), "unmeasured": unmeasured}
    present = [_remaining(job, now) for job in planned]
    submission = belief.submission(
        _NEW, submit=0.0, deadline=snapshot.deadline, team=snapshot.team, priority=snapshot.priority
    )
    cluster, chosen = Cluster((Device(SLOT, size),)), rules.decider()
    before = spans(present, chosen, cluster, 0.0) if present else {}
    after = spans([*present, Remaining(submission, 1.0, belief.spread)], chosen, cluster, 0.0)
    names = {job.id: job.name for job in planned}
    moved = [
        {"id": id, "name": names[id], "later": after[id][1][1] - end[1]}
        for id, (_, end) in before.items()
        if math.isfinite(after[id][1][1]) and after[id][1][1] > end[1] + _MOVED
    ]
    reason = "planned" if math.isfinite(after[_NEW][1][1]) else "its deadline cannot be kept beside the others'"
    answer = _answer(name, size, after[_NEW], reason)
    return {**answer, "config": config_document(belief.wants), "moved": moved, "unmeasured": unmeasured}


def _answer(policy: str, slots: int, span: tuple[Interval, Interval] | None, reason: str) -> dict[str, Any]:
    start, end = span or ((math.inf,) * 3, (math.inf,) * 3)
    return {
        "policy": policy,
        "slots": slots,
        "admitted": math.isfinite(end[1]),
        "start": _interval(start),
        "end": _interval(end),
        "reason": reason,
        "config": None,
        "moved": [],
    }


def _interval(values: tuple[float, ...]) -> dict[str, Any]:
    low, mid, high = (value if math.isfinite(value) else None for value in values)
    return {"low": low, "mid": mid, "high": high, "unit": "s from now"}


def _remaining(job: QueuedJob, now: float) -> Remaining:
    """Return what is left of a job: by when it is to end, if it runs, else all of it."""
    assert job.belief is not None
    belief = Belief.of(job.belief)
    deadline = None if job.deadline is None else job.submitted + job.deadline - now
    submission = belief.submission(job.id, submit=0.0, deadline=deadline, team=job.team, priority=job.priority)
    running = job.state is State.RUNNING and job.eta is not None and job.workers
    fastest = min((seconds for config, seconds in belief.seconds.items() if config.units == job.workers), default=None)
    left = min(max((job.eta[1] - now) / fastest, 0.0), 1.0) if running and job.eta and fastest else 1.0
    return Remaining(submission, left, belief.spread)
