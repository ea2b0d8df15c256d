"""Dominant resource fairness between teams: the team with the smallest dominant share is next.

    share(team) = max over kinds of  held / capacity,  divided by the team's weight

A team's jobs are taken in order of submission; a team whose next job does not fit passes.
Running jobs are not stopped.

Reference: Ghodsi et al., Dominant resource fairness: fair allocation of multiple resource types, NSDI 2011.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotune.cluster.ordered import asked
from cotune.cluster.policy import Active, capacity
from cotune.types import Cluster, Config


@dataclass(frozen=True)
class Drf:
    """Dominant resource fairness between teams, without stopping jobs."""

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        there = capacity(cluster)
        free = dict(there)
        given: dict[str, Config] = {}
        held: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        lines: defaultdict[str, deque[Active]] = defaultdict(deque)
        weights: dict[str, float] = {}

        def give(job: Active, config: Config) -> None:
            given[job.job.name] = config
            free[config.device] -= config.units
            held[job.job.team][config.device] += config.units

        for job in sorted(active, key=lambda job: job.number):
            weights.setdefault(job.job.team, job.job.weight)
            if job.config is not None:
                give(job, job.config)
            else:
                lines[job.job.team].append(job)
        while lines:
            team = min(
                lines,
                key=lambda team: max((n / there[d] for d, n in held[team].items()), default=0.0) / weights[team],
            )
            config = asked(lines[team][0], free)
            if config is None:
                del lines[team]
                continue
            give(lines[team].popleft(), config)
            if not lines[team]:
                del lines[team]
        return given
