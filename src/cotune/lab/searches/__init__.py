"""Searches: one file each; most of them keep the best point that they have seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotune.plan import Point, Rank
from cotune.types import Floats, Ints


@dataclass(slots=True)
class BestSeen:
    """Ranks points and remembers the least of them."""

    rank: Rank
    point: Point = ()
    key: tuple[float, ...] = (np.inf,)

    def judge(self, points: Ints) -> Floats:
        """Return the keys of some points."""
        keys = self.rank(points)
        row = int(np.lexsort(keys.T[::-1])[0])
        key = tuple(float(part) for part in keys[row])
        if not self.point or key < self.key:
            self.point, self.key = tuple(int(index) for index in points[row]), key
        return keys
