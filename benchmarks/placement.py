"""Placement: how long the exact search takes, and what its rivals cost.

    python benchmarks/placement.py times       the exact search on five sizes, and a hard instance at its time limit
    python benchmarks/placement.py rivals      cost over the optimum of every rival, 2 and 4 types, the paper's prices
    python benchmarks/placement.py counts      what balancing and rounding costs, beside exact counts

Wall times mean something on an idle machine only; the search runs in one thread, so its CPU time is
what it would take there. Instances are made up (cotune.placement.testing, and plain random ones for the
times), seeds 0, 1, 2, ...
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Iterable
from typing import Any

from cotune.placement.methods import method_of
from cotune.placement.placements.exact import Exact
from cotune.placement.problems import Placement, Problem
from cotune.placement.profiles import Profile, parse
from cotune.placement.provisioning import provide, runs_of
from cotune.placement.testing import ctr

RIVALS = (
    "cpu_only",
    "gpu_only",
    "aibox",
    "greedy",
    "tabu",
    "genetic",
    "bayesian",
    "reinforce(cell=rnn)",
    "reinforce",
    "reinforce(answer=probable)",
)
SIZES = (
    ("16 layers, 3 types, 64 units", 16, 3, 64, 3.0, 20),
    ("16 layers, 32 types, 64 units", 16, 32, 64, 3.0, 200),
    ("60 layers, 2 types, 64 units", 60, 2, 64, 3.0, 150),
    ("100 layers, 8 types, limits bind", 100, 8, 24, 10.0, 1000),
)


def plain(rng: random.Random, depth: int, types: int, most: int) -> dict[str, Any]:
    """Return layers of random speed on random types."""

    def numbers(low: float, high: float) -> list[float]:
        return [rng.uniform(low, high) for _ in range(types)]

    layers = [
        {
            "compute": numbers(0.05, 1),
            "compute_parallel": numbers(0.85, 0.999),
            "sync": numbers(0, 0.1),
            "sync_parallel": numbers(0, 1),
            "cut_before": numbers(0, 0.1),
        }
        for _ in range(depth)
    ]
    kinds = [
        {"name": f"type{kind}", "price_per_hour": rng.uniform(0.3, 3), "limit": rng.randint(most // 4, most)}
        for kind in range(types)
    ]
    return {"batch": 1024, "types": kinds, "layers": layers}


def hard(rng: random.Random, depth: int, types: int) -> dict[str, Any]:
    """Return the NP-hard corner: one unit of each type, nothing parallel."""
    layers = [
        {"compute": [rng.uniform(0.5, 2) for _ in range(types)], "compute_parallel": [0.0] * types}
        for _ in range(depth)
    ]
    kinds = [{"name": f"type{kind}", "price_per_hour": rng.uniform(1, 2), "limit": 1} for kind in range(types)]
    return {"batch": 1024, "types": kinds, "layers": layers}


def problem_of(data: dict[str, Any], faster: float) -> Problem:
    """Return the problem that asks for `faster` times the speed of the best single unit of each layer."""
    profile = parse(data)
    alone = sum(min(float(seconds or 0) for seconds in layer.compute or []) for layer in profile.layers)
    return Problem.of(profile, profile.batch / alone * faster)


def binds(plan: Placement, problem: Problem) -> bool:
    """Return whether a plan without limits would take more units than there are."""
    used = problem.used([(problem.types.index(stage.device), 0, 0, stage.workers) for stage in plan.stages])
    return bool((used > problem.limits).any())


def times(instances: int, limit: float) -> None:
    print("| size | asked, ms | wall median, ms | wall worst, ms | CPU median, ms | limits bind | proven | worst gap |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for words, depth, types, most, faster, asked in SIZES:
        walls, cpus, proven, gaps, bound = [], [], 0, [0.0], 0
        for seed in range(instances):
            data = plain(random.Random(seed), depth, types, most)
            problem = problem_of(data, faster)
            begun, cpu = time.perf_counter(), time.process_time()
            found = Exact(time_limit=limit).solve(problem)
            walls.append(1e3 * (time.perf_counter() - begun))
            cpus.append(1e3 * (time.process_time() - cpu))
            proven += found.optimal
            if found.placement is not None:
                gaps.append(found.placement.cost_per_million / (found.bound * 1e6) - 1)
            loose = {**data, "types": [entry | {"limit": None} for entry in data["types"]]}
            free = Exact(time_limit=limit).solve(problem_of(loose, faster)).placement
            bound += free is not None and binds(free, problem)
        print(
            f"| {words} | {asked} | {statistics.median(walls):.1f} | {max(walls):.1f} | {statistics.median(cpus):.1f} "
            f"| {bound}/{instances} | {proven}/{instances} | {max(gaps):.2%} |"
        )
    problem = problem_of(hard(random.Random(0), 80, 24), 1.5)
    for stop in (0.1, 2.0):
        found = Exact(time_limit=stop).solve(problem)
        plan = "no plan"
        if found.placement is not None:
            plan = f"{found.placement.cost_per_million:.4g} against a bound of {found.bound * 1e6:.4g}"
        print(f"\nhard, 80 layers on 24 single units, stopped at {stop:g} s: {found.seconds:.2f} s, {plan}")


def samples(types: int, instances: int) -> Iterable[tuple[Profile, Problem, Placement]]:
    """Yield CTR-like instances with their optimum."""
    seed = found = 0
    while found < instances:
        rng = random.Random(seed)
        seed += 1
        profile = parse(ctr(rng, 16, types))
        quickest = Exact().solve(Problem.of(profile, 0.0), _fastest()).placement
        if quickest is None:
            continue
        problem = Problem.of(profile, quickest.throughput / rng.uniform(1.3, 6))
        best = Exact().solve(problem)
        if best.placement is not None and best.optimal:
            found += 1
            yield profile, problem, best.placement


def _fastest() -> Any:
    from cotune.placement.problems import Fastest

    return Fastest()


def rivals(instances: int) -> None:
    for types in (2, 4):
        rows = list(samples(types, instances))
        print(f"\n{types} types, {len(rows)} instances of 16 layers; cost over the proven optimum\n")
        print("| method | median | worst | infeasible | optimal | seconds, median |")
        print("| --- | ---: | ---: | ---: | ---: | ---: |")
        for name in ("exact", *RIVALS):
            ratios, spent, missed = [], [], 0
            for profile, problem, best in rows:
                method = method_of(name, profile, problem)
                begun = time.perf_counter()
                plan = method.place(problem, random.Random(0))
                spent.append(time.perf_counter() - begun)
                if plan is None:
                    missed += 1
                else:
                    ratios.append(plan.cost_per_million / best.cost_per_million)
            optimal = sum(ratio < 1 + 1e-9 for ratio in ratios) / len(rows)
            middle = f"{statistics.median(ratios):.3f} | {max(ratios):.3f}" if ratios else "- | -"
            print(
                f"| {name} | {middle} | {missed / len(rows):.0%} | {optimal:.0%} | {statistics.median(spent):.3f} |",
                flush=True,
            )


def counts(instances: int) -> None:
    print("| assignment | types | median | 90th percentile | worst |\n| --- | ---: | ---: | ---: | ---: |")
    for types in (2, 4):
        over: dict[str, list[float]] = {"optimal": [], "random": []}
        for _, problem, best in samples(types, instances):
            rng = random.Random(0)
            edges = {
                "optimal": [(problem.types.index(stage.device), stage.first, stage.last) for stage in best.stages],
                "random": runs_of([rng.randrange(types) for _ in range(problem.depth)]),
            }
            for words, stages in edges.items():
                exact, balanced = provide(problem, stages), provide(problem, stages, "balanced")
                if exact is not None and balanced is not None:
                    over[words].append(balanced.cost_per_million / exact.cost_per_million - 1)
        for words, gaps in over.items():
            if len(gaps) > 1:
                high = statistics.quantiles(gaps, n=10)[-1]
                print(f"| {words} | {types} | {statistics.median(gaps):.1%} | {high:.1%} | {max(gaps):.1%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("times", "rivals", "counts"))
    parser.add_argument("--instances", type=int, default=12)
    parser.add_argument("--time-limit", type=float, default=1.0, help="seconds of wall time for `times`")
    asked = parser.parse_args()
    if asked.what == "times":
        times(asked.instances, asked.time_limit)
    else:
        {"rivals": rivals, "counts": counts}[asked.what](asked.instances)


if __name__ == "__main__":
    main()
