"""A greedy search: one axis after the other takes its best value, the others held.

It starts at the best point of the diagonal (every axis at its first value, at its second,
and so on; for a placement: all layers on one type) and stops after a round that changes
nothing. It stops at the first point that no single change improves.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from cotune.bounds import Count
from cotune.lab.searches import BestSeen
from cotune.plan import Point, Rank
from cotune.space import Space


@dataclass(frozen=True, slots=True)
class Greedy:
    """Give each axis in turn its best value until nothing changes."""

    rounds: Count = 100

    def search(self, space: Space, rank: Rank, rng: random.Random) -> Point:  # noqa: ARG002  # nothing is left to chance
        seen = BestSeen(rank)
        steps = np.arange(max(space.shape))[:, None]
        seen.judge(np.minimum(steps, np.array(space.shape) - 1))
        for _ in range(self.rounds):
            before = seen.point
            for axis, size in enumerate(space.shape):
                points = np.repeat(np.array([seen.point], dtype=np.int64), size, axis=0)
                points[:, axis] = np.arange(size)
                seen.judge(points)
            if seen.point == before:
                break
        return seen.point
