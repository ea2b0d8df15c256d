"""When jobs will start and end, if nobody else comes: the rest of each one played under the same policy.

The clock of the play jumps, so a hundred jobs take milliseconds. It is played three times: with every job as fast as
its forecast's 10th, 50th and 90th percentile says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from cotune.cluster.live_job import LiveJob
from cotune.cluster.policy import Policy, Submission
from cotune.cluster.simulate import simulate
from cotune.cluster.work import Steady
from cotune.types import Z90, Cluster

Interval = tuple[float, float, float]


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
    played = [_played(jobs, policy, cluster, now, side) for side in (-Z90, 0.0, Z90)]
    return {
        job.submission.name: (_sorted(low[0], mid[0], high[0]), _sorted(low[1], mid[1], high[1]))
        for job, low, mid, high in zip(jobs, *played, strict=True)
    }


def _played(
    jobs: Sequence[Remaining], policy: Policy, cluster: Cluster, now: float, side: float
) -> list[tuple[float, float]]:
    outcome = simulate([_rest(job, now, math.exp(side * job.spread)) for job in jobs], cluster, policy)
    return [(float(start), float(end)) for start, end in zip(outcome.start, outcome.end, strict=True)]


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


def _sorted(*values: float) -> Interval:
    low, mid, high = sorted(values)
    return low, mid, high
