"""Rules without a search, and every assignment tried: types ** layers of them.

    cpu_only, gpu_only   one type for all layers
    aibox                the embedding on the CPU and the rest on the accelerator

Which type is the CPU, and which the accelerator, its name says, or else its price.

Reference: Zhao et al., AIBox: CTR prediction model training on a single node, CIKM 2019.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

from cotune.bounds import Count
from cotune.errors import UsageError
from cotune.placement.problems import Placement, Problem
from cotune.placement.provisioning import Provisioning, provide, runs_of

__all__ = ["Aibox", "BruteForce", "CpuOnly", "GpuOnly"]


@dataclass(frozen=True, slots=True)
class CpuOnly:
    """Every layer on the CPU."""

    counts: Provisioning = "exact"

    def place(self, problem: Problem, rng: random.Random) -> Placement | None:  # noqa: ARG002  # nothing is left to chance
        return provide(problem, [(_cpu(problem), 0, problem.depth - 1)], self.counts)


@dataclass(frozen=True, slots=True)
class GpuOnly:
    """Every layer on the dearest accelerator."""

    counts: Provisioning = "exact"

    def place(self, problem: Problem, rng: random.Random) -> Placement | None:  # noqa: ARG002  # nothing is left to chance
        return provide(problem, [(_accelerator(problem), 0, problem.depth - 1)], self.counts)


@dataclass(frozen=True, slots=True)
class Aibox:
    """The first layer on the CPU, the rest on the dearest accelerator."""

    counts: Provisioning = "exact"

    def place(self, problem: Problem, rng: random.Random) -> Placement | None:  # noqa: ARG002  # nothing is left to chance
        kinds = [_cpu(problem), *[_accelerator(problem)] * (problem.depth - 1)]
        return provide(problem, runs_of(kinds), self.counts)


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


def _cpu(problem: Problem) -> int:
    """Return the type named cpu-something, or else the cheapest."""
    named = [kind for kind, name in enumerate(problem.types) if "cpu" in name.lower()]
    return min(named or range(len(problem.types)), key=lambda kind: (problem.prices[kind], kind))


def _accelerator(problem: Problem) -> int:
    """Return the dearest type that is not the CPU (the CPU where there is nothing else)."""
    others = [kind for kind in range(len(problem.types)) if kind != _cpu(problem)]
    return max(others or [0], key=lambda kind: (problem.prices[kind], kind))
