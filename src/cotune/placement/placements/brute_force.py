"""Every assignment of layers to types, each with exact counts: types ** layers of them."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

from cotune.bounds import Count
from cotune.errors import UsageError
from cotune.placement.counts import Provisioning, provide, runs_of
from cotune.placement.problems import Placement, Problem


@dataclass(frozen=True, slots=True)
class BruteForce:
    """Try every assignment: exact, for few layers."""

    most: Count = 200_000
    counts: Provisioning = "exact"

    def place(self, problem: Problem, rng: random.Random) -> Placement | None:  # noqa: ARG002  # nothing is left to chance
        assignments = len(problem.types) ** problem.depth
        if assignments > self.most:
            raise UsageError(
                f"brute_force would try {assignments:,} assignments, more than {self.most:,}; "
                f"use exact, or brute_force(most={assignments})"
            )
        best: Placement | None = None
        for assignment in itertools.product(range(len(problem.types)), repeat=problem.depth):
            plan = provide(problem, runs_of(assignment), self.counts)
            if plan is not None and plan.better_than(best):
                best = plan
        return best
