"""Goodput (Pollux, Sia): one config per job, batch and workers together, the best of all choices.

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
from cotune.types import Cluster, Config, Floats


@dataclass(frozen=True)
class Goodput:
    """Give each job the batch and workers that make the most progress together."""

    interval: Interval | None = 60.0
    power: Number = -0.5
    penalty: Positive = 1.1
    restart: NotNegative = 30.0

    one_kind: ClassVar[bool] = True  # of device

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        gpus = sum(capacity(cluster).values())
        configs: list[tuple[Active, Sequence[Config], Floats]] = []
        for job in active:
            allowed = steps(job, cluster, gpus)
            if allowed:
                worth = np.array([self._worth(job, config) for config in allowed])
                # Against its slowest config every job counts alike; a job left out counts as slower still.
                relative = worth / max(float(worth.min()), 1e-12)
                configs.append((job, allowed, np.maximum(relative, 1e-3) ** self.power - self.penalty))
        chosen = _least_value(
            [[one.units for one in allowed] for _, allowed, _ in configs], [v for *_, v in configs], gpus
        )
        return {configs[row][0].job.name: configs[row][1][place] for row, place in chosen}

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


def _least_value(units: Sequence[Sequence[int]], values: Sequence[Floats], gpus: int) -> list[tuple[int, int]]:
    """Return which option each of some jobs takes, within the GPUs, for the least total value: a knapsack with choices.

    The best total within c GPUs is worked out job by job, for all c at once; who takes what is then read backwards.
    """
    rows = _worth_looking_at(units, values, gpus)
    best = np.zeros(gpus + 1)
    taken = np.full((len(rows), gpus + 1), -1, dtype=np.int16)
    for turn, row in enumerate(rows):
        before, best = best, best.copy()
        for place, (held, value) in enumerate(zip(units[row], values[row].tolist(), strict=True)):
            found = before[: gpus + 1 - held] + value
            better = found < best[held:] - 1e-12
            best[held:][better] = found[better]
            taken[turn, held:][better] = place
    chosen, left = [], gpus
    for turn in range(len(rows) - 1, -1, -1):
        place = int(taken[turn, left])
        if place >= 0:
            chosen.append((rows[turn], place))
            left -= units[rows[turn]][place]
    return chosen[::-1]


def _worth_looking_at(units: Sequence[Sequence[int]], values: Sequence[Floats], gpus: int) -> list[int]:
    """Return the jobs that can be in the answer: of each size no more can be than there are GPUs, the best of them.

    No more jobs run than there are GPUs. So where one that is not among the best so many of its size is in an answer,
    one of these is not, and may take its place for no worse a value.
    """
    if len(units) <= gpus:
        return list(range(len(units)))
    by_size: dict[int, list[tuple[float, int]]] = {}
    for row, (sizes, worth) in enumerate(zip(units, values, strict=True)):
        for held, value in zip(sizes, worth.tolist(), strict=True):
            by_size.setdefault(held, []).append((value, row))
    return sorted({row for found in by_size.values() for _, row in sorted(found)[:gpus]})
