"""Bounds within limits against every path there is: multipliers, labels, and searches that stop early."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import numpy as np
import pytest

from cotune.placement.labels import beam, graphs, settle
from cotune.placement.multipliers import Market, ascend
from cotune.placement.paths import Edges, cheapest
from cotune.placement.placements.exact import Exact
from cotune.placement.problems import Problem
from cotune.placement.profiles import parse
from cotune.types import Floats

LATE = math.inf


def problem(rng: random.Random, *, depth: int | None = None) -> Problem:
    """Return a small problem with few units of each type; now and then all numbers are whole, so that prices tie."""
    depth, types, whole = depth or rng.randint(2, 6), rng.randint(1, 3), rng.random() < 0.4

    def numbers(low: float, high: float) -> list[float]:
        return [
            float(rng.randint(math.ceil(low), int(high))) if whole else rng.uniform(low, high) for _ in range(types)
        ]

    layers = [
        {
            "compute": [
                seconds if kind == 0 or rng.random() > 0.1 else None for kind, seconds in enumerate(numbers(1, 4))
            ],
            "compute_parallel": [rng.choice([0.5, 1.0]) if whole else rng.uniform(0.5, 1) for _ in range(types)],
            "sync": numbers(0, 2),
            "sync_parallel": [1.0] * types,
            "cut_before": numbers(0, 2),
        }
        for _ in range(depth)
    ]
    kinds = [
        {"name": f"type{kind}", "price_per_hour": price, "limit": rng.choice([1, 2, 4, 8])}
        for kind, price in enumerate(numbers(1, 6))
    ]
    profile = parse({"batch": 8, "types": kinds, "layers": layers})
    return Problem.of(profile, 8 / rng.uniform(2, 12), overlap=rng.random() < 0.7, free=rng.random() < 0.3)


def every_path(edges: Edges, free: bool) -> Iterator[list[int]]:
    """Yield every sequence of edges that covers all layers."""
    open_: list[list[int]] = [[]]
    while open_:
        path = open_.pop()
        cut, kind = (edges[path[-1]][2] + 1, edges[path[-1]][0]) if path else (0, -1)
        if cut == edges.depth:
            yield path
            continue
        open_ += [
            [*path, edge] for edge in np.flatnonzero(edges.first == cut).tolist() if free or edges[edge][0] != kind
        ]


def within_limits(asked: Problem, edges: Edges, units: Floats) -> list[tuple[float, float]]:
    """Return price and units of every path within the limits."""
    found = []
    for path in every_path(edges, asked.free):
        used = np.zeros(len(asked.types))
        for edge in path:
            used[edges.kind[edge]] += units[edge]
        if (used <= asked.limits).all():
            found.append((float(used @ asked.prices), float(used.sum())))
    return found


@pytest.mark.parametrize("block", range(4))
def test_multipliers_and_labels_never_exceed_the_cheapest_path_within_limits(block: int) -> None:
    bound_by_limits = 0
    for seed in range(block * 40, block * 40 + 40):
        rng = random.Random(seed)
        asked = problem(rng)
        counting = asked.stages.within(asked.slowest)
        edges, units = counting.edges, counting.around(np.array([asked.slowest])).units
        plans = within_limits(asked, edges, units[:, 0])
        least = min(plans, default=(math.inf, math.inf))[0]
        market = Market(asked.prices, asked.limits, asked.free)
        start = np.array([[rng.choice([0.0, rng.uniform(0, 2)]) * price for price in asked.prices]])
        climbed = ascend(
            market, edges, units, cutoffs=np.array([math.inf]), start=start, radius=0.5, rounds=8, deadline=LATE
        )
        assert climbed.bound[0] <= least * (1 + 1e-9)
        assert climbed.price[0] >= least * (1 - 1e-9)
        if not np.isfinite(climbed.bound[0]):
            continue
        bound_by_limits += climbed.multipliers.any()
        multipliers = climbed.multipliers if rng.random() < 0.5 else start
        graph = graphs(market, edges, units, multipliers).at(0, math.inf)
        critical = np.array([rng.random() < 0.5 for _ in asked.types])
        narrow = settle(graph, critical, width=1, deadline=LATE)
        assert narrow.bound <= least * (1 + 1e-9)
        assert settle(graph, critical, width=10**6, deadline=-LATE).bound == -math.inf
        wide = settle(graph, critical, width=10**6, deadline=LATE)
        assert wide.proven
        assert wide.bound == pytest.approx(least, rel=1e-9)
        if plans:
            fewest = min(count for price, count in plans if price <= least * (1 + 1e-12))
            assert units[wide.path, 0].sum() == fewest
        path = beam(graph, width=2, deadline=LATE)
        if len(path):
            used = np.bincount(edges.kind[path], weights=units[path, 0], minlength=edges.types)
            assert (used <= asked.limits).all()
    assert bound_by_limits > 5


@pytest.mark.parametrize("block", range(4))
def test_the_bound_never_exceeds_the_optimum_however_early_the_search_stops(block: int) -> None:
    for seed in range(1000 + block * 30, 1030 + block * 30):
        asked = problem(random.Random(seed), depth=random.Random(seed).randint(6, 12))
        best = Exact(rows=4, rounds=1).solve(asked)
        assert best.optimal
        cost = math.inf if best.placement is None else best.placement.cost_per_million
        for seconds in (0.0, 2e-3, 5e-3):
            stopped = Exact(time_limit=seconds).solve(asked)
            assert stopped.bound * 1e6 <= cost * (1 + 1e-9)
            if stopped.placement is not None:
                runs = [(asked.types.index(s.device), s.first, s.last, s.workers) for s in stopped.placement.stages]
                assert stopped.placement.cost_per_million >= cost * (1 - 1e-9)
                assert (asked.used(runs) <= asked.limits).all()
                assert stopped.placement.throughput >= asked.throughput * (1 - 1e-9)


def test_paths_are_the_least_of_all_paths_and_take_what_they_weigh() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        asked = problem(rng)
        edges = asked.stages.within(1e9).edges
        weights = np.random.default_rng(seed).uniform(1, 2, (len(edges), 3))
        paths = cheapest(edges, weights, free=asked.free)
        chosen = paths.chosen()
        for row in range(3):
            least = min(weights[path, row].sum() for path in every_path(edges, asked.free))
            path = chosen[chosen[:, row] >= 0, row][::-1].tolist()
            assert paths.least[row] == pytest.approx(least)
            assert weights[path, row].sum() == pytest.approx(least)
            stages = [edges[edge] for edge in path]
            assert stages[0][1] == 0
            assert stages[-1][2] == edges.depth - 1
            for (left, _, last), (right, first, _) in itertools.pairwise(stages):
                assert first == last + 1
                assert asked.free or left != right
