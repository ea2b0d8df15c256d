"""When jobs will start and end, if nobody else comes: the rest of each one played under the same policy.

The clock of the play jumps, so a hundred jobs take milliseconds. It is played three times: with every job as fast as
its forecast's 10th, 50th and 90th percentile says. With one job more it answers what would happen if that were
submitted (`foresee`): when it would start and end beside those that are there, and who would be moved.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from cotune.cluster.policy import Policy, Submission, capacity
from cotune.cluster.service.device_types import alike, is_alike, on_cluster
from cotune.cluster.service.live_job import LiveJob
from cotune.cluster.service.planned_job import PlannedJob
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueuedJob
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import FINAL, State
from cotune.cluster.simulate import simulate
from cotune.cluster.work import Steady
from cotune.documents import config_document
from cotune.errors import Infeasible
from cotune.jobfile.settings import Settings
from cotune.project.project import Project
from cotune.store import rows
from cotune.types import Z90, Cluster

_NEW = "new"
_MOVED = 0.5  # seconds later that count as being moved
Interval = Sequence[float]  # low, mid and high


@dataclass(frozen=True, slots=True)
class Remaining:
    """A job with a share of its work left, in the order in which it came."""

    submission: Submission
    left: float  # of the whole, 1 at first
    spread: float
    restart: float = 0.0  # seconds that its next start takes; none where it runs already

    @classmethod
    def of(cls, job: LiveJob) -> Self:
        """Return what is left of a job in the world: the rest of its start too, where it is starting."""
        active = job.active
        start = max(active.ready - active.synced, 0.0) if active.running else active.restart
        return cls(active.job, 1.0 - job.done, job.planned.spread, start)


def spans(
    jobs: Sequence[Remaining], policy: Policy, cluster: Cluster, now: float
) -> Mapping[str, tuple[Interval, Interval]]:
    """Return the start and the end of each job in seconds from now: low, mid and high; infinite where it never ends.

    A job that the policy would not admit never starts.
    """
    played = [
        simulate([_rest(job, now, math.exp(side * job.spread)) for job in jobs], cluster, policy)
        for side in (-Z90, 0.0, Z90)
    ]
    starts, ends = (np.sort([getattr(one, what) for one in played], axis=0).T.tolist() for what in ("start", "end"))
    return {job.submission.name: (start, end) for job, start, end in zip(jobs, starts, ends, strict=True)}


def _rest(job: Remaining, now: float, slower: float) -> Submission:
    whole = job.submission
    work = whole.work
    assert isinstance(work, Steady)
    factor = slower * max(job.left, 1e-6)
    deadline = None if whole.deadline is None else max(whole.deadline - now, 0.0)
    rates = {config: rate / factor for config, rate in work.rates.items()}
    return replace(
        whole,
        submit=0.0,
        seconds=whole.seconds * factor,
        deadline=deadline,
        work=Steady(1.0, rates),
        restart=job.restart,
    )


def foresee(queue: Queue, snapshot: JobSnapshot, settings: Settings) -> dict[str, Any]:
    """Return start and end in seconds from now with intervals, and whose end would be later, by how much."""
    leader, now = queue.leader(), queue.now()
    rules, about = queue.rules(), dict(leader.about) if leader else {}
    cluster = cluster_of(about)
    name, size = rules.policy, sum(capacity(cluster).values())
    there = queue.jobs(states=set(State) - FINAL)
    planned = [job for job in there if job.belief is not None and not job.status.held]
    unmeasured = sum(job.belief is None and not job.status.held for job in there)
    try:
        project = Project(settings=on_cluster(settings, cluster), store=queue.store, folder=snapshot.folder)
        new = PlannedJob.learn(project, types=not is_alike(cluster))
    except Infeasible as error:
        return {**_answer(name, size, None, str(error)), "unmeasured": unmeasured}
    present = [_remaining(job, now, cluster) for job in planned]
    submission = new.submission(
        _NEW,
        submit=0.0,
        deadline=snapshot.deadline,
        cluster=cluster,
        team=snapshot.team,
        priority=snapshot.priority,
    )
    chosen = rules.decider(cluster)
    before = spans(present, chosen, cluster, 0.0) if present else {}
    after = spans([*present, Remaining(submission, 1.0, new.spread, new.start)], chosen, cluster, 0.0)
    names = {job.id: job.name for job in planned}
    moved = [
        {"id": id, "name": names[id], "later": after[id][1][1] - end[1], **_between(end, after[id][1])}
        for id, (_, end) in before.items()
        if math.isfinite(after[id][1][1]) and after[id][1][1] > end[1] + _MOVED
    ]
    reason = "planned" if math.isfinite(after[_NEW][1][1]) else "its deadline cannot be kept beside the others'"
    answer = _answer(name, size, after[_NEW], reason)
    return {**answer, "config": config_document(new.wants), "moved": moved, "unmeasured": unmeasured}


def _between(before: Interval, after: Interval) -> dict[str, float | None]:
    """Return by how much later a job would end, at the least and at the most."""
    low, *_, high = sorted(late - early for early, late in zip(before, after, strict=True))
    return {"low": max(low, 0.0), "high": high if math.isfinite(high) else None}


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


def _interval(values: Interval) -> dict[str, Any]:
    low, mid, high = (value if math.isfinite(value) else None for value in values)
    return {"low": low, "mid": mid, "high": high, "unit": "s from now"}


def cluster_of(about: Mapping[str, Any]) -> Cluster:
    """Return the cluster of a service as it tells of itself; this machine's cores where none has served yet."""
    if "cluster" not in about:
        return alike(int(about.get("slots", len(os.sched_getaffinity(0)))))
    return rows.record(Cluster, about["cluster"])


def _remaining(job: QueuedJob, now: float, cluster: Cluster) -> Remaining:
    """Return what is left of a job: by when it is to end, if it runs, else all of it."""
    assert job.belief is not None
    planned = PlannedJob.of(job.belief)
    deadline = None if job.deadline is None else job.submitted + job.deadline - now
    submission = planned.submission(
        job.id, submit=0.0, deadline=deadline, cluster=cluster, team=job.team, priority=job.priority
    )
    running = job.state is State.RUNNING and job.eta is not None and job.workers
    fastest = min((seconds for config, seconds in planned.seconds.items() if config.units == job.workers), default=None)
    left = min(max((job.eta[1] - now) / fastest, 0.0), 1.0) if running and job.eta and fastest else 1.0
    return Remaining(submission, left, planned.spread, 0.0 if running else planned.start)
