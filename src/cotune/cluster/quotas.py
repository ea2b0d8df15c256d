"""A policy under an operator's rules: higher priority first, and no team beyond its quota.

    1. the jobs of the highest priority share the whole cluster, as the policy says
    2. a team that would hold more than its quota shares its quota instead, and the others share what is left
    3. those of the next priority share what is left then

With one priority and no quotas this is the policy itself. A policy that never stops a job does not stop one of lower
priority either. Deadlines are promised by the policy, which does not know of quotas. A quota counts workers of all
types together; a team over its quota gets of each type in proportion to what the policy would have given it.

To a policy that knows one type of device (`EachType`) every type is a cluster of its own. A job that may run on several
types stands in the line of the one that it asked for, and is believed to run there alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from cotune.cluster.policy import Active, Policy, capacity, less
from cotune.cluster.work import Steady
from cotune.types import Cluster, Config


@dataclass(frozen=True)
class WithinQuotas:
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
        held: Counter[str] = Counter()
        for job in jobs:
            held[job.job.team] += given[job.job.name].units if job.job.name in given else 0
        over = next((team for team in sorted(room) if held[team] > max(room[team], 0)), None)
        if over is None:
            return given
        own, others = ([job for job in jobs if (job.job.team == over) is its] for its in (True, False))
        used = _by_type([given[job.job.name] for job in own if job.job.name in given])
        kept = self._shared(own, _at_most(cluster, _parts(max(room[over], 0), used)))
        left = {team: most for team, most in room.items() if team != over}
        return kept | self._within(others, less(cluster, _by_type(kept.values())), left)

    def _shared(self, jobs: Sequence[Active], cluster: Cluster) -> dict[str, Config]:
        """Return what the policy gives some jobs of a cluster that may have nothing left."""
        return dict(self.policy.allocate(jobs, cluster)) if jobs and any(capacity(cluster).values()) else {}


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


@dataclass(frozen=True)
class EachType:
    """Another policy's decisions, for one type of device after the other."""

    policy: Policy

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("policy", "rank", "one_kind"):
            raise AttributeError(name)
        found = getattr(self.policy, name)
        return self._admit if name == "admit" else found

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        given: dict[str, Config] = {}
        for device in cluster.devices:
            with _line(active, device.name) as line:
                if line and device.count != 0:
                    given |= self.policy.allocate(line, replace(cluster, devices=(device,)))
        return given

    def _admit(self, new: Active, active: Sequence[Active], cluster: Cluster) -> bool:
        policy: Any = self.policy  # not every one turns jobs away
        own = tuple(device for device in cluster.devices if device.name == _type_of(new))
        with _line(active, _type_of(new)) as line:
            return bool(policy.admit(new, line, replace(cluster, devices=own)))


def knowing_types(policy: Policy, cluster: Cluster) -> Policy:
    """Return a policy that can decide on all types of a cluster."""
    several = len(cluster.devices) > 1
    return EachType(policy) if several and getattr(policy, "one_kind", False) else policy


def _type_of(active: Active) -> str:
    return (active.config or active.job.config).device


@contextmanager
def _line(active: Sequence[Active], kind: str) -> Iterator[list[Active]]:
    """Yield the jobs of one type, each believed to run on that type alone."""
    line = [one for one in active if _type_of(one) == kind]
    whole = [(one, one.belief) for one in line]
    for one, belief in whole:
        if isinstance(belief, Steady):
            one.belief = replace(belief, rates={how: rate for how, rate in belief.rates.items() if how.device == kind})
    try:
        yield line
    finally:
        for one, belief in whole:
            one.belief = belief
