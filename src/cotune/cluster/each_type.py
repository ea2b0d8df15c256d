"""A policy that knows one type of device, on a cluster of several: every type is a cluster of its own to it.

A job that may run on several types stands in the line of the one that it asked for, and is believed to run there alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from cotune.cluster.policy import Active, Policy
from cotune.cluster.work import Steady
from cotune.types import Cluster, Config


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
