"""EASY backfill: first come, first served, and nobody may delay the head of the line.

The first job that does not fit gets a reservation at the shadow time, when enough of the
running jobs are believed to have ended. A later job may start now if it is believed to end
before the shadow time, or if it takes only GPUs that are spare even then.

Reference: Lifka, The ANL/IBM SP scheduling system, Job Scheduling Strategies for Parallel Processing, 1995.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotune.cluster.ordered import asked
from cotune.cluster.policy import Active, capacity
from cotune.types import Cluster, Config


@dataclass(frozen=True)
class Backfill:
    """First come, first served; later jobs may jump ahead where they delay nobody (EASY)."""

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        free = capacity(cluster)
        given: dict[str, Config] = {}
        for job in active:
            if job.config is not None:
                given[job.job.name] = job.config
                free[job.config.device] -= job.held
        shadow: tuple[float, str, int] | None = None  # time, device, spare GPUs then
        for job in sorted((job for job in active if not job.running), key=lambda job: job.number):
            if not any(free.values()):
                break
            config = asked(job, free)
            if config is None:
                shadow = shadow or _reservation(job, active, given, free)
                continue
            if shadow and config.device == shadow[1] and job.left > shadow[0]:
                if config.units > shadow[2]:
                    continue
                shadow = (shadow[0], shadow[1], shadow[2] - config.units)
            given[job.job.name] = config
            free[config.device] -= config.units
        return given


def _reservation(
    head: Active, active: Sequence[Active], given: Mapping[str, Config], free: Mapping[str, int]
) -> tuple[float, str, int]:
    """Return when the head can start, on which device, and what is spare there at that time."""
    best: tuple[float, str, int] | None = None
    for device, now_free in free.items():
        if head.job.device not in (None, device):
            continue
        room = now_free
        ends = sorted(
            (max(job.left, 0.0), given[job.job.name].units)
            for job in active
            if job.job.name in given and given[job.job.name].device == device
        )
        for left, gpus in ends:
            room += gpus
            if room >= head.job.gpus:
                if best is None or left < best[0]:
                    best = (left, device, room - head.job.gpus)
                break
    return best or (float("inf"), "", 0)
