"""The Gittins index on attained GPU time (Tiresias): who is likeliest to end soon, per GPU-second spent?

    G(a) = sup over D of  P(S - a <= D | S > a) / E[min(S - a, D) | S > a]

S is the GPU time of past jobs, a what this one has had; the largest index goes first. The
index is looked up at steps of attained service that grow by a fifth each, starting with
`quantum`, and in between a job keeps its place, so that two jobs do not take turns.

Reference: Gittins, J. Royal Statistical Society B 41, 1979; Gu et al., Tiresias, NSDI 2019.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from cotune.bounds import Positive
from cotune.cluster.ordered import Ordered
from cotune.cluster.policy import Active, Rank
from cotune.types import Floats

_GROWTH = 1.2
_ALMOST = 1.0 - 1e-12  # service is summed in floating point


@dataclass(frozen=True)
class Gittins(Ordered):
    """Largest Gittins index of attained GPU time first, from the GPU times of past jobs."""

    history: Sequence[Positive] = ()
    quantum: Positive = 3250.0

    preempts: ClassVar[bool] = True

    def rank(self, active: Active) -> Rank:
        return (-self._index[active.level], active.number)

    def level_of(self, active: Active) -> int:
        return max(active.level, bisect_right(self._steps, active.service / _ALMOST) - 1)

    def level_lasts(self, active: Active) -> float:
        ahead = self._steps[active.level + 1 :]
        return (ahead[0] - active.service) / active.job.gpus if active.running and ahead else math.inf

    @cached_property
    def _steps(self) -> list[float]:
        longest = max((past for past in self.history if past < math.inf), default=self.quantum)
        count = 1 + max(0, math.ceil(math.log(max(longest / self.quantum, 1.0)) / math.log(_GROWTH)))
        return [0.0, *(self.quantum * _GROWTH**step for step in range(count))]

    @cached_property
    def _index(self) -> list[float]:
        past = np.sort(np.asarray(self.history, dtype=np.float64))
        return [gittins_index(past, attained) for attained in self._steps]


def gittins_index(past: Floats, attained: float) -> float:
    """Return the index after some attained service, given the sorted GPU times of past jobs (infinite: never ended)."""
    beyond = past[np.searchsorted(past, attained, side="right") :] - attained
    left = beyond[np.isfinite(beyond)]
    if len(left) == 0:
        return 0.0
    ending = np.arange(1, len(left) + 1)
    spent = np.cumsum(left) + left * (len(beyond) - ending)
    return float(np.max(ending / spent))
