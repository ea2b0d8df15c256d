"""Weighted fair shares over time: teams that used less of late, for their weight, go first.

    usage(team) = sum of GPU-seconds held, each counted 1/2 per half-life that passed since

Jobs stand by (priority, usage / weight, submission). A team never holds more than its
`quota` (a part of the cluster). Running jobs are not stopped.

Reference: Kay and Lauder, A fair share scheduler, Communications of the ACM 31(1), 1988.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotune.bounds import Fraction, Positive
from cotune.cluster.ordered import asked
from cotune.cluster.policy import Active, capacity
from cotune.types import Cluster, Config


@dataclass(frozen=True)
class FairShare:
    """Least decayed use for its weight first, within quotas."""

    half_life: Positive = 86400.0
    quota: Fraction = 1.0

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        free = capacity(cluster)
        most = self.quota * sum(free.values())
        given: dict[str, Config] = {}
        held: Counter[str] = Counter()
        for job in active:
            if job.config is not None:
                given[job.job.name] = job.config
                free[job.config.device] -= job.held
                held[job.job.team] += job.held
        waiting = [job for job in active if not job.running]
        for job in sorted(waiting, key=lambda a: (-a.job.priority, a.team_usage / a.job.weight, a.number)):
            config = asked(job, free)
            if config is not None and held[job.job.team] + config.units <= most:
                given[job.job.name] = config
                free[config.device] -= config.units
                held[job.job.team] += config.units
        return given
