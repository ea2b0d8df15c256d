"""What if this job were submitted? When it would start and end beside those that are there, and who would be moved."""

from __future__ import annotations

import math
from typing import Any

from cotune import registry
from cotune.cluster.service.belief import SLOT, Belief
from cotune.cluster.service.forecasts import Interval, Remaining, spans
from cotune.cluster.service.queue import Queue, QueuedJob
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import State
from cotune.documents import config_document
from cotune.errors import Infeasible
from cotune.project import Project
from cotune.types import Cluster, Device

_NEW = "new"
_MOVED = 0.5  # seconds later that count as being moved


def foresee(queue: Queue, snapshot: JobSnapshot, policy: str = "joint", slots: int | None = None) -> dict[str, Any]:
    """Return start and end in seconds from now with intervals, and whose end would be later, by how much."""
    leader, now = queue.leader(), queue.now()
    about = dict(leader.about) if leader else {}
    name, size = str(about.get("policy", policy)), int(about.get("slots", slots or 1))
    project = Project(settings=snapshot.settings(), store=queue.store, folder=snapshot.folder)
    try:
        belief = Belief.learn(project)
    except Infeasible as error:
        return _answer(name, size, span=None, reason=str(error), belief=None, moved=[])
    there = [_remaining(job, now) for job in _present(queue)]
    deadline = None if snapshot.deadline is None else snapshot.deadline
    new = Remaining(
        belief.submission(_NEW, submit=0.0, deadline=deadline, team=snapshot.team, priority=snapshot.priority),
        1.0,
        belief.spread,
    )
    cluster = Cluster((Device(SLOT, size),))
    chosen = registry.create("policy", name)
    before = spans(there, chosen, cluster, 0.0) if there else {}
    after = spans([*there, new], chosen, cluster, 0.0)
    names = {job.id: job.name for job in _present(queue)}
    moved = [
        {"id": id, "name": names[id], "later": after[id][1][1] - end[1]}
        for id, (_, end) in before.items()
        if math.isfinite(after[id][1][1]) and after[id][1][1] > end[1] + _MOVED
    ]
    reason = "its deadline cannot be kept beside the others'" if not math.isfinite(after[_NEW][1][1]) else "planned"
    return _answer(name, size, span=after[_NEW], reason=reason, belief=belief, moved=moved)


def _answer(
    policy: str,
    slots: int,
    *,
    span: tuple[Interval, Interval] | None,
    reason: str,
    belief: Belief | None,
    moved: list[dict[str, Any]],
) -> dict[str, Any]:
    start, end = span or ((math.inf,) * 3, (math.inf,) * 3)
    return {
        "policy": policy,
        "slots": slots,
        "admitted": math.isfinite(end[1]),
        "start": _interval(start),
        "end": _interval(end),
        "reason": reason,
        "config": config_document(belief.wants) if belief else None,
        "moved": moved,
    }


def _interval(values: tuple[float, ...]) -> dict[str, Any]:
    low, mid, high = (value if math.isfinite(value) else None for value in values)
    return {"low": low, "mid": mid, "high": high, "unit": "s from now"}


def _present(queue: Queue) -> list[QueuedJob]:
    there = queue.jobs(states=[State.WAITING, State.RUNNING, State.STOPPING])
    return [job for job in there if job.belief is not None and not job.standing.held]


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
