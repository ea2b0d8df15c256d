"""What every placement method promises: a valid plan, the same again, and none cheaper than the exact one.

`ctr` makes up networks for click-through rates: an embedding that gains little from an accelerator, dense layers that
gain much.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

from cotune.placement.placements.exact import Exact
from cotune.placement.problems import Placement, Problem
from cotune.placement.profiles import parse


class PlacementConformance:
    """Name your method: `algorithm = CpuOnly()`."""

    algorithm: Any

    def test_plans_are_valid_repeatable_and_never_cheaper_than_exact(self) -> None:
        for seed in range(3):
            problem = problem_of(seed)
            best = Exact().solve(problem).placement
            first, second = (self.algorithm.place(problem, random.Random(7)) for _ in range(2))
            assert first == second
            if first is not None:
                check(first, problem)
                assert best is not None
                assert first.cost_per_million >= best.cost_per_million * (1 - 1e-9)


def problem_of(seed: int, depth: int = 6, types: int = 2) -> Problem:
    """Return a synthetic network for click-through rates, and a throughput to reach."""
    rng = random.Random(seed)
    return Problem.of(parse(ctr(rng, depth, types)), 4096 / rng.uniform(0.1, 0.5))


def check(plan: Placement, problem: Problem) -> None:
    """Hold a plan against the definition of the problem."""
    spans = [(stage.first, stage.last) for stage in plan.stages]
    assert [first for first, _ in spans] == [0, *(last + 1 for _, last in spans[:-1])], "stages follow each other"
    assert spans[-1][1] == problem.depth - 1, "every layer is placed"
    assert all(left.device != right.device for left, right in itertools.pairwise(plan.stages))
    used = {name: sum(stage.workers for stage in plan.stages if stage.device == name) for name in problem.types}
    assert all(units <= limit for units, limit in zip(used.values(), problem.limits, strict=True))
    assert plan.throughput >= problem.throughput * (1 - 1e-9)
    hourly = sum(problem.prices[problem.types.index(stage.device)] * 3600 * stage.workers for stage in plan.stages)
    cost = 1e6 / plan.throughput * hourly / 3600
    assert abs(plan.cost_per_million - cost) <= 1e-6 * cost


def ctr(rng: random.Random, depth: int, types: int) -> dict[str, Any]:
    """Return a profile of `depth` layers on 8 CPU cores, a V100 and types between, at the paper's prices."""
    between = [0.9, 1.6][: types - 2]
    speeds = [1.0, *(rng.uniform(3, 12) for _ in between), 24.0]
    prices = [0.32, *between, 2.42]
    limits = [60, *(rng.randint(8, 24) for _ in between), 32]
    layers = []
    for place in range(depth):
        dense = place > 0
        work = rng.uniform(0.05, 0.3) if dense else rng.uniform(0.3, 1.2)
        gains = [speed if dense else 1 + (speed - 1) * 0.05 for speed in speeds]
        moved = rng.uniform(0.002, 0.02)
        layers.append(
            {
                "name": f"fc{place}" if dense else "embedding",
                "kind": "fc" if dense else "embedding",
                "compute": [work / gain for gain in gains],
                "compute_parallel": [rng.uniform(0.9, 0.99) for _ in speeds],
                "sync": [moved * rng.uniform(0.2, 1) for _ in speeds],
                "sync_parallel": [rng.uniform(0.3, 0.8) for _ in speeds],
                "cut_before": [rng.uniform(0.5, 2) * moved for _ in speeds],
                "input_bytes": rng.uniform(1e3, 1e5),
                "weight_bytes": rng.uniform(1e4, 1e8),
            }
        )
    names = ["cpu8", *(f"mid{place}" for place in range(len(between))), "v100"]
    kinds = [
        {"name": name, "price_per_hour": price, "limit": limit}
        for name, price, limit in zip(names, prices, limits, strict=True)
    ]
    return {"batch": 4096, "types": kinds, "layers": layers}
