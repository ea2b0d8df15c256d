"""The exact search against brute force: every assignment, every count, straight from the definition."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from cotune.place.exact import Exact
from cotune.place.problem import Placement, Problem
from cotune.place.profile import Profile, parse

Key = tuple[float, int, float]


def instance(rng: random.Random, depth: int, types: int, most: int) -> dict[str, Any]:
    """Return a random profile; whole numbers now and then, so that costs and times tie."""
    whole = rng.random() < 0.4

    def number(low: float, high: float) -> float:
        return float(rng.randint(math.ceil(low), math.ceil(high))) if whole else rng.uniform(low, high)

    def share() -> float:
        return rng.choice([0.0, 0.5, 1.0]) if whole else rng.uniform(0.5, 1.0)

    layers = [
        {
            "name": f"layer{layer}",
            "kind": "fc",
            "compute": [None if types > 1 and rng.random() < 0.07 else number(0.5, 4) for _ in range(types)],
            "compute_parallel": [share() for _ in range(types)],
            "sync": [number(0, 2) for _ in range(types)],
            "sync_parallel": [share() for _ in range(types)],
            "cut_before": [number(0, 1.5) for _ in range(types)],
        }
        for layer in range(depth)
    ]
    names = [
        {"name": f"type{kind}", "price_per_hour": number(1, 6), "limit": rng.randint(1, most)} for kind in range(types)
    ]
    return {"batch": 8, "types": names, "layers": layers}


def stage_seconds(profile: Profile, kind: int, first: int, last: int, units: int, overlap: bool) -> float:
    compute = sync = 0.0
    for layer in profile.layers[first : last + 1]:
        fields = (layer.compute, layer.compute_parallel, layer.sync, layer.sync_parallel)
        numbers = [(field or [])[kind] for field in fields]
        if numbers[0] is None:
            return math.inf
        seconds, part, moved, shared = (float(number or 0) for number in numbers)
        compute += seconds * (1 - part + part / units)
        sync += moved * (1 - shared + shared / units)
    for cut in (first, last + 1):
        if 0 < cut < len(profile.layers):
            sync += (profile.layers[cut].cut_before or [])[kind] / units  # type: ignore[operator]
    return max(compute, sync) if overlap else compute + sync


def partitions(depth: int, types: int, free: bool) -> Iterator[list[tuple[int, int, int]]]:
    """Yield every way to cut the layers into stages with types."""
    for cuts in itertools.product([False, True], repeat=depth - 1):
        starts = [0, *(place + 1 for place, cut in enumerate(cuts) if cut)]
        ends = [*(start - 1 for start in starts[1:]), depth - 1]
        for kinds in itertools.product(range(types), repeat=len(starts)):
            if free or all(left != right for left, right in itertools.pairwise(kinds)):
                yield list(zip(kinds, starts, ends, strict=True))


def brute_force(profile: Profile, throughput: float, free: bool, overlap: bool) -> Key | None:
    """Return cost, units and seconds of the best plan, by trying every count of every stage of every partition."""
    prices = [entry.price_per_hour / 3600 for entry in profile.types]
    limits = [entry.limit or 0 for entry in profile.types]
    slowest = profile.batch / throughput * (1 + 1e-12)
    table = {
        (kind, first, last): [stage_seconds(profile, kind, first, last, k, overlap) for k in range(1, limit + 1)]
        for kind, limit in enumerate(limits)
        for last in range(len(profile.layers))
        for first in range(last + 1)
    }
    plans: list[Key] = []
    for edges in partitions(len(profile.layers), len(prices), free):
        # Cost is tau x price, so for each tau that some stage can have, the fewest units of every stage will do.
        taus = {seconds for edge in edges for seconds in table[edge] if seconds <= slowest}
        for tau in taus:
            counts = [next((k + 1 for k, s in enumerate(table[edge]) if s <= tau), None) for edge in edges]
            used = [0] * len(prices)
            for (kind, _, _), count in zip(edges, counts, strict=True):
                used[kind] += count or 10**9
            if all(units <= limit for units, limit in zip(used, limits, strict=True)):
                own = max(table[edge][count - 1] for edge, count in zip(edges, counts, strict=True) if count)
                price = sum(p * units for p, units in zip(prices, used, strict=True))
                plans.append((own * price / profile.batch * 1e6, sum(used), own))
    if not plans:
        return None
    cheapest = min(plans)[0]
    tied = [plan for plan in plans if plan[0] <= cheapest * (1 + 1e-9)]
    return min(tied, key=lambda plan: (plan[1], plan[2]))


def agree(plan: Placement | None, expected: Key | None) -> None:
    assert (plan is None) == (expected is None)
    if plan is not None and expected is not None:
        assert plan.cost_per_million == pytest.approx(expected[0], rel=1e-9)
        assert plan.units == expected[1]
        assert plan.seconds == pytest.approx(expected[2], rel=1e-9)


@pytest.mark.parametrize("block", range(10))
def test_exact_equals_brute_force_with_ties_and_binding_limits(block: int) -> None:
    feasible = 0
    for seed in range(block * 36, block * 36 + 36):
        rng = random.Random(seed)
        depth, types = rng.randint(1, 5), rng.randint(1, 3)
        profile = parse(instance(rng, depth, types, rng.choice([2, 4, 9])))
        throughput, free, overlap = 8 / rng.uniform(1, 12), rng.random() < 0.3, rng.random() < 0.7
        problem = Problem.of(profile, throughput, overlap=overlap, free=free)
        solution = Exact().solve(problem)
        expected = brute_force(profile, throughput, free, overlap)
        agree(solution.placement, expected)
        assert solution.optimal
        feasible += expected is not None
    assert 6 <= feasible <= 35  # both kinds were met
