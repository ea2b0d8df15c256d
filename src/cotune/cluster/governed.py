"""A policy under an operator's rules: higher priority first, and no team beyond its quota.

    1. the jobs of the highest priority share the whole cluster, as the policy says
    2. a team that would hold more than its quota shares its quota instead, and the others share what is left
    3. those of the next priority share what is left then

With one priority and no quotas this is the policy itself. A policy that never stops a job does not stop one of lower
priority either. Deadlines are promised by the policy, which does not know of quotas. A quota counts workers of all
types together; a team over its quota gets of each type in proportion to what the policy would have given it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from cotune.cluster.policy import Active, Policy, capacity, less
from cotune.types import Cluster, Config


@dataclass(frozen=True)
class Governed:
    """Another policy's decisions, one priority after the other and within the workers of each team."""

    policy: Policy
    workers: Mapping[str, int] = field(default_factory=dict)  # at most, by team

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("policy", "workers", "rank"):  # it is no mere order any more
            raise AttributeError(name)
        return getattr(self.policy, name)

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        line = sorted(active, key=lambda job: -job.job.priority)
        room, given = dict(self.workers), dict[str, Config]()
        stays = not getattr(self.policy, "preempts", True)
        for priority, same in groupby(line, key=lambda job: job.job.priority):
            stay = [job.config for job in line if job.config is not None and job.job.priority < priority and stays]
            more = self._within(list(same), less(cluster, _by_type([*given.values(), *stay])), room)
            given |= more
            for job in line:
                if job.job.name in more and job.job.team in room:
                    room[job.job.team] -= more[job.job.name].units
        return given

    def _within(self, jobs: Sequence[Active], cluster: Cluster, room: Mapping[str, int]) -> dict[str, Config]:
        """Return what jobs of one priority hold, with so many workers left for some teams."""
        given = self._shared(jobs, cluster)
        over = next((team for team in sorted(room) if _held(jobs, team, given) > max(room[team], 0)), None)
        if over is None:
            return given
        own, others = _parted(jobs, over)
        used = _by_type([given[job.job.name] for job in own if job.job.name in given])
        kept = self._shared(own, _at_most(cluster, _parts(max(room[over], 0), used)))
        left = {team: most for team, most in room.items() if team != over}
        return kept | self._within(others, less(cluster, _by_type(kept.values())), left)

    def _shared(self, jobs: Sequence[Active], cluster: Cluster) -> dict[str, Config]:
        """Return what the policy gives some jobs of a cluster that may have nothing left."""
        return dict(self.policy.allocate(jobs, cluster)) if jobs and any(capacity(cluster).values()) else {}


def _held(jobs: Sequence[Active], team: str, given: Mapping[str, Config]) -> int:
    names = [job.job.name for job in jobs if job.job.team == team]
    return sum(given[name].units for name in names if name in given)


def _parted(jobs: Sequence[Active], team: str) -> tuple[list[Active], list[Active]]:
    own = [job for job in jobs if job.job.team == team]
    return own, [job for job in jobs if job.job.team != team]


def _by_type(configs: Iterable[Config]) -> Counter[str]:
    """Return the units of each type of device that some configs hold."""
    held: Counter[str] = Counter()
    for config in configs:
        held[config.device] += config.units
    return held


def _parts(units: int, used: Mapping[str, int]) -> dict[str, int]:
    """Return so many units in parts like those in use; what does not divide goes to the largest."""
    whole = sum(used.values())
    parts = {kind: units * held // whole for kind, held in used.items()}
    parts[max(used, key=lambda kind: used[kind])] += units - sum(parts.values())
    return parts


def _at_most(cluster: Cluster, most: Mapping[str, int]) -> Cluster:
    """Return a cluster with no more than so many units of each type; none of a type that is not named."""
    there = capacity(cluster)
    devices = (replace(one, count=min(there[one.name], most.get(one.name, 0))) for one in cluster.devices)
    return replace(cluster, devices=tuple(devices))
