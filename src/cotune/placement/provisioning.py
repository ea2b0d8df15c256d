"""Units per stage for one assignment of layers to types: exact, and as the paper rounds them.

Exact: start with the fewest units that reach the throughput; note the cost; raise every
stage that is the slowest to its next faster count; stop when a limit is passed or the
slowest stage cannot be made faster. k(tau), the fewest units of each stage for a time tau,
is the least in every component, and the walk visits every distinct k(tau), so nothing
cheaper is missed. It ends early where what the stages cost while they are busy, which only
grows, is no less than the best; and after many steps, when one unit more or less no longer matters.

Balanced: every stage reaches just the throughput asked for, rounded up to whole units:

    k >= a O / (batch / throughput - (1 - a) O)       the larger of compute and communication

Reference: Liu et al., HeterPS, Future Generation Computer Systems, 2023, its formulas corrected (docs/placement.md).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Literal

import numpy as np

from cotune.placement.paths import Edge
from cotune.placement.problems import TIE, Placement, Problem, Run

MOST_STEPS = 20_000

Provisioning = Literal["exact", "balanced"]
PROVISIONS: tuple[Provisioning, ...] = ("exact", "balanced")


def runs_of(assignment: Sequence[int]) -> list[Edge]:
    """Return the stages of one type per layer: the longest runs of the same type."""
    edges: list[Edge] = []
    for layer, kind in enumerate(assignment):
        if edges and edges[-1][0] == kind:
            edges[-1] = (int(kind), edges[-1][1], layer)
        else:
            edges.append((int(kind), layer, layer))
    return edges


def provide(problem: Problem, edges: Sequence[Edge], how: Provisioning = "exact") -> Placement | None:
    """Return the stages with their units, or None where they cannot reach the throughput within the limits."""
    walks = [problem.stages.steps(*edge, problem.slowest) for edge in edges]
    prices, left = problem.prices.tolist(), problem.limits.tolist()
    units = [0] * len(edges)
    slowest_first: list[tuple[float, int]] = []  # a heap of (-seconds, place)
    to_raise = list(range(len(edges)))
    price, busy, best = 0.0, 0.0, np.inf
    worked = [0.0] * len(edges)
    chosen: list[int] = []
    floor = max(problem.stages.fastest_of(*edge) for edge in edges)
    for _ in range(MOST_STEPS):
        for place in to_raise:
            step = next(walks[place], None)
            if step is None:
                return _placed(problem, edges, chosen)
            kind, more, work = edges[place][0], step.units - units[place], step.work - worked[place]
            price, left[kind], units[place] = price + prices[kind] * more, left[kind] - more, step.units
            busy, worked[place] = busy + prices[kind] * work, step.work
            heapq.heappush(slowest_first, (-step.seconds, place))
        tau = -slowest_first[0][0]
        if min(left) < 0 or max(floor * price, busy) > best * (1 - TIE):
            return _placed(problem, edges, chosen)
        if tau * price < best * (1 - TIE) or not chosen:
            best, chosen = tau * price, list(units)
        if how == "balanced":
            return _placed(problem, edges, chosen)
        to_raise = []
        while slowest_first and slowest_first[0][0] == -tau:
            to_raise.append(heapq.heappop(slowest_first)[1])
    return _placed(problem, edges, chosen)


def _placed(problem: Problem, edges: Sequence[Edge], units: Sequence[int]) -> Placement | None:
    if not units:
        return None
    runs: list[Run] = [(*edge, count) for edge, count in zip(edges, units, strict=True)]
    return problem.placement(runs)
