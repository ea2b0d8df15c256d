"""A policy under an operator's rules: higher priority first, and no team beyond its quota.

    1. the jobs of the highest priority share the whole cluster, as the policy says
    2. a team that would hold more than its quota shares its quota instead, and the others share what is left
    3. those of the next priority share what is left then

With one priority and no quotas this is the policy itself. A policy that never stops a job does not stop one of lower
priority either. Deadlines are promised by the policy, which does not know of quotas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from cotune.cluster.policy import Active, Policy, capacity
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
            lower = sum(job.held for job in line if job.job.priority < priority) if stays else 0
            more = self._within(list(same), _less(cluster, _units(given) + lower), room)
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
        kept = self._shared(own, _less(cluster, sum(capacity(cluster).values()) - max(room[over], 0)))
        left = {team: most for team, most in room.items() if team != over}
        return kept | self._within(others, _less(cluster, _units(kept)), left)

    def _shared(self, jobs: Sequence[Active], cluster: Cluster) -> dict[str, Config]:
        """Return what the policy gives some jobs of a cluster that may have nothing left."""
        return dict(self.policy.allocate(jobs, cluster)) if jobs and any(capacity(cluster).values()) else {}


def _held(jobs: Sequence[Active], team: str, given: Mapping[str, Config]) -> int:
    names = [job.job.name for job in jobs if job.job.team == team]
    return sum(given[name].units for name in names if name in given)


def _parted(jobs: Sequence[Active], team: str) -> tuple[list[Active], list[Active]]:
    own = [job for job in jobs if job.job.team == team]
    return own, [job for job in jobs if job.job.team != team]


def _units(given: Mapping[str, Config]) -> int:
    return sum(config.units for config in given.values())


def _less(cluster: Cluster, units: int) -> Cluster:
    """Return a cluster of one kind of device with so many fewer."""
    if units <= 0:
        return cluster
    (device,) = cluster.devices
    return replace(cluster, devices=(replace(device, count=max(capacity(cluster)[device.name] - units, 0)),))
