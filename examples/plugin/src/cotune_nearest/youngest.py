"""Last come, first served: what nobody should want, as a bound from below."""

from __future__ import annotations

from dataclasses import dataclass

from cotune.cluster.ordered import Ordered
from cotune.cluster.policy import Active, Rank


@dataclass(frozen=True)
class Youngest(Ordered):
    """Latest submission first, never stopping a job."""

    def rank(self, active: Active) -> Rank:
        return (-active.number,)
