"""The simple orders: who is first in line, by one number.

    fifo, fifo_skip   submit time
    sjf               believed run time; a job that runs is left alone
    srtf              believed time left; may stop a running job
    srsf              believed time left x GPUs
    smallest          GPUs
    edf               deadline

Ties go to the earlier submission, then to the earlier line of the trace. All but `fifo`
pass over a job that does not fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from cotune.cluster.ordered import Ordered, pace
from cotune.cluster.policy import Active, Rank

__all__ = ["Edf", "Fifo", "FifoSkip", "Sjf", "Smallest", "Srsf", "Srtf"]


@dataclass(frozen=True)
class Fifo(Ordered):
    """First come, first served; the head of the line blocks everybody behind it."""

    skips: ClassVar[bool] = False

    def rank(self, active: Active) -> Rank:
        return (active.number,)


@dataclass(frozen=True)
class FifoSkip(Ordered):
    """First come, first served among those that fit."""

    def rank(self, active: Active) -> Rank:
        return (active.number,)


@dataclass(frozen=True)
class Sjf(Ordered):
    """Shortest believed run time first, never stopping a job.

    Reference: Smith, Various optimizers for single-stage production, Naval Research Logistics Quarterly 3, 1956.
    """

    def rank(self, active: Active) -> Rank:
        return (active.total, active.number)


@dataclass(frozen=True)
class Srtf(Ordered):
    """Shortest believed remaining time first, stopping longer jobs.

    Reference: Schrage, Operations Research 16(3), 1968.
    """

    preempts: ClassVar[bool] = True

    def rank(self, active: Active) -> Rank:
        return (active.left, active.number)

    def drift(self, active: Active) -> float:
        return pace(active)


@dataclass(frozen=True)
class Srsf(Ordered):
    """Smallest believed remaining GPU time first, stopping larger jobs.

    Reference: Gu et al., Tiresias: a GPU cluster manager for distributed deep learning, NSDI 2019.
    """

    preempts: ClassVar[bool] = True

    def rank(self, active: Active) -> Rank:
        return (active.left * active.job.gpus, active.number)

    def drift(self, active: Active) -> float:
        return pace(active) * active.job.gpus


@dataclass(frozen=True)
class Smallest(Ordered):
    """Fewest GPUs first, stopping larger jobs."""

    preempts: ClassVar[bool] = True

    def rank(self, active: Active) -> Rank:
        return (active.job.gpus, active.number)


@dataclass(frozen=True)
class Edf(Ordered):
    """Earliest deadline first, stopping jobs that have more time or no deadline.

    Reference: Liu and Layland, Scheduling algorithms for multiprogramming, Journal of the ACM 20(1), 1973.
    """

    preempts: ClassVar[bool] = True

    def rank(self, active: Active) -> Rank:
        deadline = active.job.deadline
        return (math.inf if deadline is None else deadline, active.number)
