"""Policies that are an order, and what such an order means.

At every decision all unfinished jobs stand in line by rank. Each is given the GPUs it
asked for if that many are still free; if not it is passed over (`skips`) or everybody
behind it waits as well. Without `preempts` the jobs that run already go first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from cotune.cluster.policy import COUNTED, Active, Rank, capacity, rigid_config
from cotune.types import Cluster, Config


@dataclass(frozen=True)
class Ordered:
    """An order without levels or drift; the orders fill in `rank` and change what differs."""

    preempts: ClassVar[bool] = False  # whether a job that runs may be stopped for one that ranks before it
    skips: ClassVar[bool] = True  # whether jobs behind one that does not fit may run

    @property
    def steady(self) -> bool:
        """Return whether ranks keep these rules; if not, everybody is sorted each time."""
        return True

    def rank(self, active: Active) -> Rank:
        """Return where a job stands now, smallest first; it may not change while the job waits."""
        raise NotImplementedError

    def drift(self, active: Active) -> float:  # noqa: ARG002  # the same for all, unless an order says more
        """Return by how much the first part of the rank falls in a second of work."""
        return 0.0

    def level_of(self, active: Active) -> int:
        """Return the level a job belongs to now."""
        return active.level

    def level_lasts(self, active: Active) -> float:  # noqa: ARG002  # the same for all, unless an order says more
        """Return the seconds for which it stays there, if nothing else happens."""
        return math.inf

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        free = capacity(cluster)
        line = sorted(active, key=lambda a: (self.preempts or not a.running, self.rank(a)))
        given: dict[str, Config] = {}
        for job in line:
            config = asked(job, free)
            if config is not None:
                given[job.job.name] = config
                free[config.device] -= config.units
            elif not self.skips:
                break
        return given


def pace(active: Active) -> float:
    """Return how fast the believed time left falls while a job works: by 1, unless its nodes are slower."""
    if active.belief is None or active.config is None:
        return 1.0
    asked_for = active.belief.rate(active.job.config, COUNTED, active.done)
    return active.belief.rate(active.config, active.nodes, active.done) / asked_for


def asked(active: Active, free: Mapping[str, int]) -> Config | None:
    """Return what a job asked for on the device with room for it (its own, then the fastest, the freest), or None."""
    if active.config is not None and free[active.config.device] >= active.config.units:
        return active.config
    gpus, wanted = active.job.gpus, active.job.device
    fitting = [name for name, left in free.items() if left >= gpus and wanted in (None, name)]
    if not fitting:
        return None
    if active.job.wants is not None and active.job.wants.device in fitting:
        return active.job.wants
    if active.belief is None:
        return rigid_config(gpus, active.job.batch_size, max(fitting, key=lambda name: free[name]))
    belief = active.belief
    known = [one for one in (asked_on(active, name) for name in fitting) if one is not None]
    return max(known, key=lambda one: (belief.rate(one, COUNTED, active.done), free[one.device]), default=None)


def asked_on(active: Active, kind: str) -> Config | None:
    """Return what a job asked for, on a kind of device; None where it cannot run so."""
    job = active.job
    if job.device not in (None, kind):
        return None
    if job.wants is not None and job.wants.device == kind:
        return job.wants
    if active.belief is None:
        return rigid_config(job.gpus, job.batch_size, kind)
    return next((one for one in active.belief.configs if one.device == kind and one.units == job.gpus), None)
