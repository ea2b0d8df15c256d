"""The exact search against brute force: every assignment, every count, straight from the definition."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from cotune.placement.placements.exact import Exact
from cotune.placement.problems import Fastest, Placement, Problem
from cotune.placement.profiles import Profile, parse

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


def stage_seconds(profile: Profile, kind: int, first: int, last: int, units: int, *, overlap: bool) -> float:
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
        (kind, first, last): [
            stage_seconds(profile, kind, first, last, k, overlap=overlap) for k in range(1, limit + 1)
        ]
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
        cost = math.inf if expected is None else expected[0]
        assert Exact(time_limit=0.0, rounds=1 + seed % 3).solve(problem).bound * 1e6 <= cost * (1 + 1e-9)
        feasible += expected is not None
    assert 6 <= feasible <= 35  # both kinds were met


def fastest_by_force(profile: Profile, throughput: float, below: float) -> float | None:
    """Return the least seconds of any plan that costs less than `below` per example."""
    found: list[float] = []
    for edges in partitions(len(profile.layers), len(profile.types), free=False):
        limits = [int(profile.types[kind].limit or 0) for kind, _, _ in edges]
        for counts in itertools.product(*(range(1, limit + 1) for limit in limits)):
            used = [0] * len(profile.types)
            for (kind, _, _), count in zip(edges, counts, strict=True):
                used[kind] += count
            if any(units > int(entry.limit or 0) for units, entry in zip(used, profile.types, strict=True)):
                continue
            tau = max(
                stage_seconds(profile, *edge, count, overlap=True) for edge, count in zip(edges, counts, strict=True)
            )
            price = sum(units * entry.price_per_hour / 3600 for units, entry in zip(used, profile.types, strict=True))
            if tau <= profile.batch / throughput * (1 + 1e-12) and tau * price / profile.batch < below * (1 - 1e-9):
                found.append(tau)
    return min(found, default=None)


@pytest.mark.parametrize("seed", range(40))
def test_the_fastest_plan_and_the_fastest_cheaper_plan_equal_brute_force(seed: int) -> None:
    rng = random.Random(1000 + seed)
    profile = parse(instance(rng, rng.randint(1, 4), rng.randint(1, 2), 4))
    problem = Problem.of(profile, 8 / rng.uniform(4, 20))
    quick = Exact().solve(problem, Fastest())
    expected = fastest_by_force(profile, problem.throughput, math.inf)
    assert quick.optimal
    assert (quick.placement is None) == (expected is None)
    if quick.placement is None:
        return
    assert quick.placement.seconds == pytest.approx(expected, rel=1e-9)
    cost = quick.placement.cost_per_million / 1e6
    cheaper = Exact().solve(problem, Fastest(below=cost))
    expected = fastest_by_force(profile, problem.throughput, cost)
    assert (cheaper.placement is None) == (expected is None)
    if cheaper.placement is not None:
        assert cheaper.placement.seconds == pytest.approx(expected, rel=1e-9)


def by_every_time(problem: Problem, most: int) -> float | None:
    """Return the least cost per batch over every time that a stage can take, with all ways to use units kept apart."""
    depth, types, stages = problem.depth, len(problem.types), problem.stages
    limits = [int(limit) for limit in problem.limits]
    table = {
        (kind, first, last): [stages.seconds(kind, first, last, k) for k in range(1, limits[kind] + 1)]
        for kind in range(types)
        for last in range(depth)
        for first in range(last + 1)
    }
    best = None
    for tau in sorted({s for row in table.values() for s in row if s <= problem.slowest}):
        fewest = {e: next((k + 1 for k, s in enumerate(row) if s <= tau), most + 1) for e, row in table.items()}
        reached: list[set[tuple[int, tuple[int, ...]]]] = [set() for _ in range(depth + 1)]
        reached[0] = {(-1, (0,) * types)}
        for first in range(depth):
            for before, used in reached[first]:
                for kind in range(types):
                    for last in range(first, depth):
                        total = used[kind] + fewest[kind, first, last]
                        if kind != before and total <= limits[kind]:
                            reached[last + 1].add((kind, (*used[:kind], total, *used[kind + 1 :])))
        prices = [sum(p * k for p, k in zip(problem.prices, used, strict=True)) for _, used in reached[depth]]
        if prices and (best is None or tau * min(prices) < best):
            best = tau * min(prices)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_exact_equals_an_exhaustive_search_up_to_sixteen_layers(seed: int) -> None:
    rng = random.Random(2000 + seed)
    profile = parse(instance(rng, rng.randint(8, 16), rng.randint(2, 3), 3))
    problem = Problem.of(profile, 8 / rng.uniform(10, 40))
    solution = Exact().solve(problem)
    expected = by_every_time(problem, 3)
    assert solution.optimal
    assert (solution.placement is None) == (expected is None)
    if solution.placement is not None:
        assert solution.placement.cost_per_million == pytest.approx(expected / 8 * 1e6, rel=1e-9)  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(20))
def test_a_table_of_the_same_seconds_gives_the_same_plan(seed: int) -> None:
    rng = random.Random(3000 + seed)
    profile = parse(instance(rng, rng.randint(1, 6), 2, 5))
    table = [
        {"type": entry.name, "first": first, "last": last, "units": units, "seconds": seconds}
        for kind, entry in enumerate(profile.types)
        for last in range(len(profile.layers))
        for first in range(last + 1)
        for units in range(1, int(entry.limit or 0) + 1)
        if math.isfinite(seconds := stage_seconds(profile, kind, first, last, units, overlap=True))
    ]
    types = [entry.model_dump() for entry in profile.types]
    tabled = parse({"batch": 8, "types": types, "layers": [{}] * len(profile.layers), "stage_seconds": table})
    throughput = 8 / rng.uniform(3, 12)
    left = Exact().solve(Problem.of(profile, throughput)).placement
    right = Exact().solve(Problem.of(tabled, throughput)).placement
    assert (left is None) == (right is None)
    if left is not None and right is not None:
        assert left.cost_per_million == pytest.approx(right.cost_per_million, rel=1e-9)
        assert left.units == right.units


def test_more_units_that_are_slower_are_never_bought() -> None:
    rows = [{"type": "a", "first": 0, "last": 0, "units": units, "seconds": 1 / s} for units, s in SPEEDS]
    profile = parse({"batch": 1, "types": [{"name": "a", "price_per_hour": 1, "limit": 8}], "stage_seconds": rows})
    plan = Exact().solve(Problem.of(profile, 1.5)).placement
    assert plan is not None
    assert plan.units == 2
    assert Exact().solve(Problem.of(profile, 1.9)).placement is None


SPEEDS = ((1, 1.0), (2, 1.75), (4, 1.13), (8, 0.40))  # as measured on RTX 3090s


def test_without_a_limit_units_grow_as_far_as_they_pay() -> None:
    layer = {"compute": [10.0], "compute_parallel": [0.999], "sync": [0.0], "sync_parallel": [0.0], "cut_before": [0.0]}
    profile = parse({"batch": 10, "types": [{"name": "a", "price_per_hour": 1, "limit": None}], "layers": [layer]})
    plan = Exact().solve(Problem.of(profile, 500)).placement
    assert plan is not None
    assert plan.units == math.ceil(9.99 / (10 / 500 - 0.01) - 1e-9)


def test_a_time_limit_keeps_a_valid_plan_and_a_bound_below_it() -> None:
    rng = random.Random(5)
    profile = parse(instance(rng, 40, 8, 6))
    problem = Problem.of(profile, 8 / 40)
    solution = Exact(time_limit=0.0).solve(problem)
    proven = Exact().solve(problem)
    assert solution.placement is not None
    assert proven.placement is not None
    assert solution.placement.throughput >= problem.throughput * (1 - 1e-9)
    assert solution.bound * 1e6 <= proven.placement.cost_per_million * (1 + 1e-9)
    assert proven.placement.cost_per_million <= solution.placement.cost_per_million * (1 + 1e-9)


@pytest.mark.parametrize("block", range(3))
def test_exact_equals_brute_force_with_free_units_and_equal_layers(block: int) -> None:
    for seed in range(4000 + block * 30, 4030 + block * 30):
        rng = random.Random(seed)
        data = instance(rng, rng.randint(1, 4), rng.randint(1, 3), rng.choice([1, 3, 6]))
        for entry in data["types"]:
            entry["price_per_hour"] = rng.choice([0.0, 1.0, entry["price_per_hour"]])
        if rng.random() < 0.5:
            data["layers"] = [data["layers"][0]] * len(data["layers"])
        profile, throughput = parse(data), 8 / rng.uniform(1, 12)
        free, overlap = rng.random() < 0.5, rng.random() < 0.5
        solution = Exact().solve(Problem.of(profile, throughput, overlap=overlap, free=free))
        agree(solution.placement, brute_force(profile, throughput, free, overlap))


@pytest.mark.parametrize("seed", range(15))
def test_no_limit_is_as_good_as_a_very_high_one(seed: int) -> None:
    rng = random.Random(9000 + seed)
    data = instance(rng, rng.randint(1, 4), rng.randint(1, 2), 3)
    for layer in data["layers"]:
        layer["compute_parallel"] = [min(share, 0.97) for share in layer["compute_parallel"]]
    throughput = 8 / rng.uniform(0.5, 6)
    costs = []
    for limit in (None, 300):
        profile = parse(data | {"types": [entry | {"limit": limit} for entry in data["types"]]})
        plan = Exact().solve(Problem.of(profile, throughput)).placement
        costs.append(plan.cost_per_million if plan else math.inf)
    assert costs[0] == pytest.approx(costs[1], rel=1e-9)


def test_a_type_without_a_limit_is_never_short() -> None:
    """Some types with a limit and some without equal brute force where the latter have more than is of use."""
    bound = 0
    for seed in range(60):
        rng = random.Random(seed)
        raw = instance(rng, rng.randint(2, 4), 2, 2)
        raw["types"][1]["limit"] = None
        throughput, free, overlap = 8 / rng.uniform(2, 8), rng.random() < 0.5, rng.random() < 0.5
        solution = Exact().solve(Problem.of(parse(raw), throughput, overlap=overlap, free=free))
        raw["types"][1]["limit"] = 12
        expected = brute_force(parse(raw), throughput, free, overlap)
        if expected is None or solution.placement is None or solution.placement.units > 12:
            continue  # brute force has too few units to tell
        agree(solution.placement, expected)
        assert solution.optimal
        bound += any(stage.device == "type0" for stage in solution.placement.stages)
    assert bound > 10


def test_work_that_units_share_wholly_is_settled_at_once_without_limits() -> None:
    """Cost then does not depend on the time: all counts tie, and those that match exactly are the best of all."""
    types = [{"name": "cpu", "price_per_hour": 0.32, "limit": None}, {"name": "gpu", "price_per_hour": 2.42}]
    layers = [
        {"name": "embedding", "compute": [1.03, 0.9], "compute_parallel": [1, 1]},
        {"name": "dense", "compute": [2.11, 0.1332], "compute_parallel": [1, 1]},
    ]
    one = parse({"batch": 4096, "types": types[:1], "layers": [{"compute": [1.3], "compute_parallel": [1]}]})
    alone = Exact().solve(Problem.of(one, 5000))
    assert alone.optimal
    assert alone.placement is not None
    assert alone.placement.units == 2  # the fewest that are fast enough
    both = Exact().solve(Problem.of(parse({"batch": 4096, "types": types, "layers": layers}), 3000))
    assert both.optimal
    assert both.placement is not None
    assert [stage.workers for stage in both.placement.stages] == [2575, 333]  # 1.03 s : 0.1332 s
