"""Goodput (Pollux, Sia): one config per job, batch and workers together, by an integer programme.

    minimise  sum_jc A[j,c] * (r * g[j,c] / best g[j])^p + penalty * sum_j (1 - sum_c A[j,c])
    such that each job has at most one config and the GPUs suffice,       p = -0.5

g is the believed progress per second: throughput x statistical efficiency, so that a larger
batch counts only for what it is worth. A config other than the present one is discounted by
the restart factor r = max(age - restarts * delay, 0) / (age + delay).

Reference: Jayaram Subramanya et al., Sia, SOSP 2023; Qiao et al., Pollux, OSDI 2021.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cotune.bounds import Interval, NotNegative, Number, Positive
from cotune.cluster.options import choices
from cotune.cluster.policy import COUNTED, Active, capacity
from cotune.cluster.solver import quietly
from cotune.types import Cluster, Config, Floats


@dataclass(frozen=True)
class Goodput:
    """Give each job the batch and workers that make the most progress together, by an integer programme."""

    interval: Interval | None = 60.0
    power: Number = -0.5
    penalty: Positive = 1.1
    restart: NotNegative = 30.0

    one_kind: ClassVar[bool] = True  # of device

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        if not active:
            return {}
        gpus = sum(capacity(cluster).values())
        options = [(row, config) for row, job in enumerate(active) for config in steps(job, cluster, gpus)]
        if not options:
            return {}
        worth = np.array([self._worth(active[row], config) for row, config in options])
        least = {row: min(worth[place] for place, (one, _) in enumerate(options) if one == row) for row, _ in options}
        relative = np.array([worth[place] / max(least[row], 1e-12) for place, (row, _) in enumerate(options)])
        # Against its slowest config every job counts alike; a job left out counts as slower still.
        value = np.maximum(relative, 1e-3) ** self.power - self.penalty
        chosen = _solve(value, [row for row, _ in options], [config.units for _, config in options], gpus)
        return {active[options[place][0]].job.name: options[place][1] for place in chosen}

    def _worth(self, job: Active, config: Config) -> float:
        pace = 1.0 if job.belief is None else job.belief.rate(config, COUNTED, job.done)
        if config == job.config:
            return pace
        restarts = max(job.starts - 1, 0)
        return pace * max(job.age - restarts * self.restart, 1.0) / (job.age + self.restart)


def steps(job: Active, cluster: Cluster, gpus: int) -> list[Config]:
    """Return the fastest config of each power of two of GPUs, and the present one."""
    best: dict[int, Config] = {}
    for config in choices(job, cluster, any_batch=True):
        held = config.units
        rigid = job.belief is None
        if held > gpus or not (rigid or held & (held - 1) == 0 or config == job.config):
            continue
        if held not in best or (
            job.belief is not None
            and job.belief.rate(config, COUNTED, job.done) > job.belief.rate(best[held], COUNTED, job.done) * (1 + 1e-9)
        ):
            best[held] = config
    return list(best.values())


def _solve(value: Floats, jobs: list[int], held: list[int], gpus: int) -> list[int]:
    """Return which options to take: at most one per job, within the GPUs, of the least total value."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    count = len(value)
    rows = np.concatenate([np.array(jobs), np.full(count, max(jobs) + 1)])
    columns = np.concatenate([np.arange(count), np.arange(count)])
    matrix = coo_array((np.concatenate([np.ones(count), np.array(held)]), (rows, columns))).tocsr()
    limits = np.concatenate([np.ones(max(jobs) + 1), [gpus]])
    with quietly():
        found = milp(
            value,
            constraints=LinearConstraint(matrix, ub=limits),
            integrality=np.ones(count),
            bounds=Bounds(0, 1),
            options={"time_limit": 10.0, "mip_rel_gap": 1e-3},
        )
    if found.x is None:
        raise RuntimeError(f"the integer programme of goodput failed: {found.message}")
    return np.flatnonzero(found.x > 0.5).tolist()
