"""Deadlines with elastic shares (ElasticFlow): admit only what can be finished in time, then use what is idle.

A new job is admitted if earliest-deadline-first filling (`deadlines`) still meets every
admitted deadline with it. GPUs beyond the shares go, one step at a time, to the job whose
time falls the most per GPU; jobs without a deadline come after all that have one. On nodes
jobs get sizes that leave nodes whole (`packing`), as the paper's powers of two do.

Reference: Gu et al., ElasticFlow: an elastic serverless training platform, ASPLOS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import ClassVar

from cotune.cluster.deadlines import fill
from cotune.cluster.options import Options, choices, packing
from cotune.cluster.policy import Active, capacity
from cotune.types import Cluster, Config


@dataclass(frozen=True)
class Elasticflow:
    """Admit jobs whose deadlines can be kept, give each the least that suffices, then share out the rest."""

    one_kind: ClassVar[bool] = True  # of device

    def admit(self, new: Active, active: Sequence[Active], cluster: Cluster) -> bool:
        if new.job.deadline is None:
            return True
        there = sum(capacity(cluster).values())
        return all(share.met for share in fill(active, there, lambda job: _options(job, cluster)))

    def level_lasts(self, active: Active) -> float:
        """Return when to decide again at the latest: the plan turns over at every deadline."""
        return active.deadline_left if active.deadline_left > 0 else math.inf

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        there = sum(capacity(cluster).values())
        free = there
        known = {job.number: _options(job, cluster) for job in active}
        shares = list(fill(active, there, lambda job: known[job.number]))
        given: dict[int, Config] = {}
        for share in shares:
            if share.config is not None and share.config.units <= free:
                given[share.active.number] = share.config
                free -= share.config.units
        _hand_out([share.active for share in shares], given, free, known)
        free = there - sum(config.units for config in given.values())
        _hand_out([job for job in active if job.job.deadline is None], given, free, known)
        return {job.job.name: given[job.number] for job in active if job.number in given}


def _options(job: Active, cluster: Cluster) -> Options:
    return Options.of(job, lambda: packing(choices(job, cluster), cluster))


def _hand_out(active: Sequence[Active], given: dict[int, Config], free: int, known: Mapping[int, Options]) -> None:
    """Give free GPUs, step by step, to the job whose time left falls the most per GPU."""
    if free <= 0:
        return
    jobs = {job.number: job for job in active}
    heap = [step for job in active if (step := _step(job, known[job.number], given.get(job.number), free))]
    heapify(heap)
    while heap and free > 0:
        _, number, more, config = heappop(heap)
        if more > free:
            continue
        given[number] = config
        free -= more
        if step := _step(jobs[number], known[number], config, free):
            heappush(heap, step)


def _step(job: Active, options: Options, config: Config | None, free: int) -> tuple[float, int, int, Config] | None:
    """Return the best next step up: minus the seconds saved per GPU, whose, GPUs, config."""
    held = 0 if config is None else config.units
    seconds = options.seconds.tolist()
    now = float(job.total) * 1e3 + 1e9 if config is None else seconds[options.configs.index(config)]
    best: tuple[float, int, int, Config] | None = None
    for bigger, units, left in zip(options.configs, options.sizes.tolist(), seconds, strict=False):
        more = units - held
        if 0 < more <= free and bigger is not None:
            saved = (now - left) / more
            if saved > 1e-9 and (best is None or -saved < best[0]):
                best = (-saved, job.number, more, bigger)
    return best
