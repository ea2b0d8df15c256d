"""Exact placement on seven families of instances: how often it is proven in time.

    python benchmarks/placement_families.py [--instances 30] [--first 1000] [--time-limit 1] [--cpu]

All have 100 layers, 8 types and limits that bind (the cheapest plan without them breaks one). Limits are
drawn from 1-4 to 8-128 units, the throughput asked for from 0.15 to 0.95 of the highest found in 0.3 s (so that
instances of one seed can differ a little from run to run);
a third of the instances have no overlap of computing and communication, a quarter have free cuts.
The search's constants were chosen on other seeds of these families, so take new ones.
With --cpu the search's clock counts CPU seconds: what a core of an idle machine would show.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from cotune.placement.placements.exact import Exact
from cotune.placement.problems import Fastest, Problem
from cotune.placement.profiles import parse

LAYERS, TYPES = 100, 8
STOCKS = ((1, 4), (2, 12), (6, 24), (16, 64), (8, 128))
SHARES = (0.15, 0.3, 0.5, 0.7, 0.85, 0.95)
NEAR = 0.01
Cell = Callable[[int, int], float]  # layer, type


@dataclass(frozen=True)
class Family:
    """What a cell of the profile is, per layer and type, and what a unit of each type costs."""

    compute: Cell
    parallel: Cell
    sync: Cell
    sync_parallel: Cell
    cut: Cell
    prices: list[float]


def uniform(rng: random.Random) -> Family:
    """Every number by itself."""
    most = rng.choice([1.0, 3.0])
    return Family(
        lambda _l, _t: rng.uniform(0.05, most),
        lambda _l, _t: rng.uniform(0.85, 0.999),
        lambda _l, _t: rng.uniform(0, 0.1),
        lambda _l, _t: rng.uniform(0, 1),
        lambda _l, _t: rng.uniform(0, 0.1),
        [rng.uniform(0.3, 3) for _ in range(TYPES)],
    )


def devices(rng: random.Random) -> Family:
    """Speeds from 1 to 30, prices that follow them, four kinds of layers that like some types more than others."""
    speeds, prices = _priced(rng, 30)
    work = [math.exp(rng.uniform(math.log(0.2), math.log(5))) for _ in range(LAYERS)]
    kinds = [rng.randrange(4) for _ in range(LAYERS)]
    likes = [[rng.uniform(0.3, 1) for _ in range(TYPES)] for _ in range(4)]
    shares, links = _each(rng, 0.9, 0.999), _each(rng, 0.01, 0.2)
    moved = [rng.uniform(0.1, 1) for _ in range(LAYERS)]
    return Family(
        lambda layer, kind: work[layer] / (speeds[kind] * likes[kinds[layer]][kind]),
        lambda _l, kind: shares[kind],
        lambda layer, kind: 0.2 * moved[layer] * links[kind],
        lambda _l, _t: 0.5,
        lambda layer, kind: moved[layer] * links[kind],
        prices,
    )


def blocks(rng: random.Random) -> Family:
    """A transformer: the same one, two or four layers again and again between two others."""
    speeds, prices = _priced(rng, 12)
    shares, ends, period = _each(rng, 0.9, 0.999), _each(rng, 1, 4), rng.choice([1, 2, 4])
    base, cut = [_each(rng, 0.5, 1.5) for _ in range(period)], rng.uniform(0.005, 0.1)
    return Family(
        lambda layer, kind: (ends if layer in (0, LAYERS - 1) else base[layer % period])[kind] / speeds[kind],
        lambda _l, kind: shares[kind],
        lambda _l, _t: 0.01,
        lambda _l, _t: 0.5,
        lambda _l, _t: cut,
        prices,
    )


def serial(rng: random.Random) -> Family:
    """Layers that gain little from more units."""
    return Family(
        lambda _l, _t: rng.uniform(0.1, 2),
        lambda _l, _t: rng.uniform(0.2, 0.95),
        lambda _l, _t: rng.uniform(0, 0.3),
        lambda _l, _t: rng.uniform(0, 1),
        lambda _l, _t: rng.uniform(0, 0.3),
        [rng.uniform(0.3, 6) for _ in range(TYPES)],
    )


def talkative(rng: random.Random) -> Family:
    """Cuts and synchronisation that take longer than computing."""
    return Family(
        lambda _l, _t: rng.uniform(0.1, 1),
        lambda _l, _t: rng.uniform(0.8, 1),
        lambda _l, _t: rng.uniform(0, 1),
        lambda _l, _t: rng.uniform(0.3, 1),
        lambda _l, _t: rng.uniform(0, 3),
        [rng.uniform(0.3, 3) for _ in range(TYPES)],
    )


def nulls(rng: random.Random) -> Family:
    """One of the first two, and three layers in ten do not fit a type."""
    whole = rng.choice([uniform, devices])(rng)
    homes = [rng.randrange(TYPES) for _ in range(LAYERS)]

    def compute(layer: int, kind: int) -> float:
        return whole.compute(layer, kind) if kind == homes[layer] or rng.random() > 0.3 else math.nan

    return replace(whole, compute=compute)


def whole(rng: random.Random) -> Family:
    """Whole numbers: prices and seconds that tie."""
    return Family(
        lambda _l, _t: float(rng.randint(1, 6)),
        lambda _l, _t: rng.choice([0.5, 0.9, 1.0]),
        lambda _l, _t: float(rng.randint(0, 1)),
        lambda _l, _t: 1.0,
        lambda _l, _t: float(rng.randint(0, 1)),
        [float(rng.randint(1, 6)) for _ in range(TYPES)],
    )


FAMILIES = (uniform, devices, blocks, serial, talkative, nulls, whole)


def _each(rng: random.Random, low: float, high: float) -> list[float]:
    return [rng.uniform(low, high) for _ in range(TYPES)]


def _priced(rng: random.Random, fastest: float) -> tuple[list[float], list[float]]:
    """Return speeds up to `fastest`, and prices that rise with them, more or less than in proportion."""
    speeds = [math.exp(rng.uniform(0, math.log(fastest))) for _ in range(TYPES)]
    power = rng.uniform(0.6, 1.2)
    return speeds, [0.3 * speed**power * rng.uniform(0.7, 1.4) for speed in speeds]


def profile(family: Family, limits: list[int]) -> dict[str, Any]:
    """Return a profile as it stands in JSON."""

    def row(cell: Cell, layer: int) -> list[float | None]:
        numbers = [cell(layer, kind) for kind in range(TYPES)]
        return [None if math.isnan(number) else number for number in numbers]

    layers = [
        {
            "compute": row(family.compute, layer),
            "compute_parallel": row(family.parallel, layer),
            "sync": row(family.sync, layer),
            "sync_parallel": row(family.sync_parallel, layer),
            "cut_before": row(family.cut, layer),
        }
        for layer in range(LAYERS)
    ]
    types = [
        {"name": f"type{kind}", "price_per_hour": price, "limit": limit}
        for kind, (price, limit) in enumerate(zip(family.prices, limits, strict=True))
    ]
    return {"batch": 1024, "types": types, "layers": layers}


def instance(make: Callable[[random.Random], Family], seed: int) -> Problem | None:
    """Return a problem whose limits bind, or None where they do not."""
    rng = random.Random(f"{make.__name__} {seed}")
    low, high = rng.choice(STOCKS)
    data = profile(make(rng), [rng.randint(low, high) for _ in range(TYPES)])
    overlap, free = rng.random() < 0.67, rng.random() < 0.25
    slow = Problem.of(parse(data), 0.0, overlap=overlap, free=free)
    quickest = Exact(time_limit=0.3).solve(slow, Fastest()).placement
    if quickest is None:
        return None
    asked = replace(slow, throughput=quickest.throughput * rng.choice(SHARES))
    endless = parse(data | {"types": [entry | {"limit": None} for entry in data["types"]]})
    loose = Problem.of(endless, asked.throughput, overlap=overlap, free=free)
    wished = Exact(time_limit=0.3).solve(loose).placement
    if wished is None:
        return None
    used = loose.used([(loose.types.index(stage.device), 0, 0, stage.workers) for stage in wished.stages])
    return asked if (used > asked.limits).any() else None


def instances(make: Callable[[random.Random], Family], first: int, count: int) -> Iterator[Problem]:
    seed = first
    while count:
        found = instance(make, seed)
        seed += 1
        if found is not None:
            count -= 1
            yield found


def summary(name: str, rows: list[tuple[float, float, float, bool]]) -> str:
    """Return a line of the table from (wall, CPU, gap, proven) of each instance."""
    walls, cpus, gaps = (sorted(column) for column in list(zip(*rows, strict=True))[:3])
    ninth = min(len(rows) - 1, int(0.9 * len(rows)))
    near = sum(gap <= NEAR for gap in gaps) / len(rows)
    proven = sum(row[3] for row in rows) / len(rows)
    return (
        f"| {name} | {len(rows)} | {statistics.median(walls):.2f} | {statistics.median(cpus):.2f} | {cpus[ninth]:.2f} "
        f"| {cpus[-1]:.2f} | {proven:.0%} | {near:.0%} | {gaps[ninth]:.2%} | {gaps[-1]:.2%} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=30, help="of each family")
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--time-limit", type=float, default=1.0)
    parser.add_argument("--cpu", action="store_true", help="let the search's clock count CPU seconds")
    asked = parser.parse_args()
    if asked.cpu:
        time.monotonic = time.process_time
    print("| family | instances | wall median, s | CPU median, s | 90 % | max | proven | within 1 % | gap 90 % | max |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    every: list[tuple[float, float, float, bool]] = []
    for make in FAMILIES:
        rows = []
        for problem in instances(make, asked.first, asked.instances):
            wall, cpu = time.perf_counter(), time.process_time()
            found = Exact(time_limit=asked.time_limit).solve(problem)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            plan = found.placement
            gap = math.inf if plan is None else max(0.0, plan.cost_per_million / (found.bound * 1e6) - 1)
            rows.append((wall, cpu, gap, found.optimal))
        print(summary(make.__name__, rows), flush=True)
        every += rows
    print(summary("all", every))


if __name__ == "__main__":
    main()
