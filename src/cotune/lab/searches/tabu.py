"""The joint-configuration paper's Algorithm 2: Tabu search over batch size and workers.

    1  T <- empty; sol_c <- a random valid config
    2  repeat NG times:
    3      evaluate sol_c                            reward = 1 / cost
    4      if sol_c in T: move by one step in each axis
    5      else: keep it if its reward is the best (tie: higher accuracy); add it to T
    6  return the best seen

As published a config that is not tabu is visited again in the next round, found tabu
then, and only then left: half of the rounds move. Our reading of `move`: a random step
of -step..step along every axis, not all zero, kept inside the space. The list holds the
last `tenure` configs (all of them by default, as the paper's `update` is not specified).

Reference: Liang et al., Chinese Journal of Computers 45(2), 2022; Glover and Laguna, Tabu Search, 1998.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

import numpy as np

from cotune.bounds import Count
from cotune.plan import Point, Rank
from cotune.space import Space


@dataclass(frozen=True, slots=True)
class Tabu:
    """Walk by unit steps and never judge a point twice: the joint-configuration paper's search."""

    rounds: Count = 1000
    step: Count = 1
    tenure: Count | None = None
    starts: Count = 1000

    def search(self, space: Space, rank: Rank, rng: random.Random) -> Point:
        current = self._valid_start(space, rank, rng)
        best, best_key = current, _key(rank, current)
        tabu: deque[Point] = deque(maxlen=self.tenure)
        listed: set[Point] = set()
        for _ in range(self.rounds):
            if current in listed:
                current = self._move(current, space.shape, rng)
                continue
            key = _key(rank, current)
            if key < best_key:
                best, best_key = current, key
            if tabu.maxlen is not None and len(tabu) == tabu.maxlen:
                listed.discard(tabu[0])
            tabu.append(current)
            listed.add(current)
        return best

    def _valid_start(self, space: Space, rank: Rank, rng: random.Random) -> Point:
        """Return a random valid point, or any point when none is met in some tries."""
        points = space.points
        for _ in range(self.starts):
            point = tuple(int(index) for index in points[rng.randrange(len(points))])
            if np.isfinite(_key(rank, point)[0]):
                return point
        return point

    def _move(self, point: Point, shape: tuple[int, ...], rng: random.Random) -> Point:
        moves = [0 for _ in shape]
        while not any(moves):
            moves = [rng.randint(-self.step, self.step) for _ in shape]
        return tuple(min(max(index + move, 0), size - 1) for index, move, size in zip(point, moves, shape, strict=True))


def _key(rank: Rank, point: Point) -> tuple[float, ...]:
    return tuple(float(part) for part in rank(np.array([point], dtype=np.int64))[0])
