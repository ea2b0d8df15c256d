"""A genetic search: the better of a few parents mix their axes, and some axes change by chance.

Each round keeps the `elite` best points and fills up with children: two parents, each the
best of `tournament` drawn at random, give every axis with equal chance, and every axis of
the child is drawn anew with chance 1 / axes.

Reference: Holland, Adaptation in Natural and Artificial Systems, University of Michigan Press, 1975.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from cotune.bounds import Count, Whole
from cotune.lab.searches import BestSeen
from cotune.plan import Point, Rank
from cotune.space import Space


@dataclass(frozen=True, slots=True)
class Genetic:
    """Breed points: tournaments, uniform crossover, mutation by one axis on average."""

    rounds: Count = 40
    population: Count = 50
    tournament: Count = 3
    elite: Whole = 2

    def search(self, space: Space, rank: Rank, rng: random.Random) -> Point:
        chance = np.random.default_rng(rng.getrandbits(64))
        shape = np.array(space.shape)
        seen = BestSeen(rank)
        points = chance.integers(0, shape, size=(self.population, len(shape)))
        for _ in range(self.rounds):
            order = np.lexsort(seen.judge(points).T[::-1])
            points = points[order]
            # Rows are sorted, so the winner of a tournament is the least row drawn.
            parents = chance.integers(0, self.population, size=(2, self.population, self.tournament)).min(axis=2)
            mothers, fathers = points[parents[0]], points[parents[1]]
            children = np.where(chance.random(mothers.shape) < 0.5, mothers, fathers)
            anew = chance.random(children.shape) < 1 / len(shape)
            children = np.where(anew, chance.integers(0, shape, size=children.shape), children)
            children[: self.elite] = points[: self.elite]
            points = children
        seen.judge(points)
        return seen.point
