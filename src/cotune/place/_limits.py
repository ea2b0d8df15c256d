"""The cheapest stages for one tau when the units of a type run out.

Two steps. Prices are raised where a type is short (Lagrange multipliers m >= 0):

    sum of units x price  >=  least over paths of units x (price + m)  -  m . limits

which bounds the price from below and often finds a plan that fits. What the bound leaves
open is settled by labels: (position, last type, units used of each type, price), extended
stage by stage, dropped when another is no worse in everything, or when the price so far and
the bound for the rest exceed the cutoff. Nothing else is dropped, so the answer is exact.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cotune.place._paths import Edge, cheapest, remaining
from cotune.place.stage_times import packed
from cotune.types import Floats, Ints

_CROWD = 2  # times the width: with more labels, comparing all with all takes longer than it is worth


@dataclass(frozen=True, slots=True)
class Market:
    """What does not depend on tau: prices, limits, and how stages may follow one another."""

    prices: Floats
    limits: Floats
    depth: int
    free: bool


class Dual(NamedTuple):
    """The best multipliers found, the bound they prove, and the cheapest plan that fits met on the way."""

    multipliers: Floats
    bound: float
    price: float
    edges: Sequence[Edge]


class Found(NamedTuple):
    """The cheapest plan within the limits and the cutoff (none: infinite price), and whether that is proven."""

    price: float
    edges: Sequence[Edge]
    proven: bool


def weigh(units: Floats, prices: Floats) -> Floats:
    """Return units x price, infinite where there are no such units (also where they would be free)."""
    if np.all(prices > 0):
        return units * prices[..., None]
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(units), np.inf, units * prices[..., None])


def used_by(edges: Sequence[Edge], units: Floats) -> Floats:
    """Return the units of each type that a path takes."""
    used = np.zeros(len(units))
    for kind, first, last in edges:
        used[kind] += units[kind, packed(first, last)]
    return used


def dual(market: Market, units: Floats, cutoffs: Floats, start: Floats, rounds: int) -> list[Dual]:
    """Return multipliers for some taus (rows), by subgradient steps; a row rests once its bound passes its cutoff."""
    short = np.isfinite(market.limits)
    limits = np.where(short, market.limits, 0.0)
    ascents = [_Ascent(market, limits, short, multipliers) for multipliers in start]
    for _ in range(rounds):
        rows = [row for row, ascent in enumerate(ascents) if not ascent.done]
        if not rows:
            break
        raised = np.stack([market.prices + ascents[row].multipliers for row in rows])
        paths = cheapest(weigh(units[rows], raised), market.depth, free=market.free)
        for place, row in enumerate(rows):
            ascents[row].step(float(paths.least[place]), paths.path(place), units[row], float(cutoffs[row]))
    return [ascent.best for ascent in ascents]


class _Ascent:
    """One row's way up: the multipliers now, the best bound and the cheapest plan that fits so far."""

    def __init__(self, market: Market, limits: Floats, short: npt.NDArray[np.bool_], start: Floats) -> None:
        self.market, self.limits, self.short = market, limits, short
        self.multipliers = start
        self.best = Dual(start, -np.inf, np.inf, ())
        self.shrink, self.stuck, self.done = 1.0, 0, False

    def step(self, least: float, edges: Sequence[Edge], units: Floats, cutoff: float) -> None:
        """Take in the cheapest path at the present multipliers, and move them."""
        used = used_by(edges, units)
        bound = least - float(self.multipliers @ self.limits)
        if np.all(used <= self.market.limits) and (price := float(used @ self.market.prices)) < self.best.price:
            self.best = self.best._replace(price=price, edges=edges)
        self.stuck = 0 if bound > self.best.bound else self.stuck + 1
        if bound > self.best.bound:
            self.best = self.best._replace(multipliers=self.multipliers, bound=bound)
        over = np.where(self.short, used - self.limits, 0.0)
        over = np.where((self.multipliers == 0) & (over < 0), 0.0, over)
        if bound > cutoff or self.best.price <= self.best.bound * (1 + 1e-12) or not over.any():
            self.done = True
            return
        target = min(cutoff, self.best.price)
        if np.isinf(target):
            target = 1.5 * max(bound, self.best.bound) + float(np.max(self.market.prices))
        if self.stuck >= 3:
            self.shrink, self.stuck = self.shrink / 2, 0
        step = self.shrink * max(target - bound, 1e-3 * abs(target)) / float(over @ over)
        self.multipliers = np.maximum(self.multipliers + step * over, 0.0)


@dataclass(slots=True)
class _Labels:
    """Ways to cover the layers up to one position."""

    price: Floats
    used: Floats  # (labels, types)
    last: Ints
    parent: Ints  # place among the labels of the position where the last stage starts
    edge: Ints


def labels(
    market: Market,
    units: Floats,
    cutoff: float,
    multipliers: Floats,
    *,
    width: int,
    deadline: float,
    beam: bool = False,
) -> Found:
    """Return the cheapest path within limits whose price is at most the cutoff.

    When there are more than `width` labels at a position, a beam goes on with the most promising
    of them, and finds a plan without a proof; otherwise the search gives up, as it does at the deadline.
    """
    raised = weigh(units, market.prices + multipliers)
    rest = remaining(raised, market.depth, free=market.free)
    spare = float(multipliers @ np.where(np.isfinite(market.limits), market.limits, 0.0))
    edges = _useful(market, raised, rest, cutoff + spare)
    types = len(market.prices)
    arriving: list[list[_Labels]] = [[] for _ in range(market.depth + 1)]
    arriving[0] = [_Labels(np.zeros(1), np.zeros((1, types)), np.array([-1]), np.array([-1]), np.array([-1]))]
    kept: list[_Labels | None] = [None] * (market.depth + 1)
    proven = True
    for position in range(market.depth + 1):
        if not arriving[position]:
            continue
        here = _joined(arriving[position])
        if len(here.price) <= _CROWD * width:
            here = _undominated(here)
        if len(here.price) > width:
            if not beam:
                return Found(np.inf, (), False)
            here, proven = _undominated(_most_promising(here, multipliers, rest[position], width)), False
        if time.monotonic() > deadline:
            return Found(np.inf, (), False)
        promise = here.price + here.used @ multipliers - spare
        if position == market.depth:
            kept[position] = here
            break
        kept[position] = here
        starts = np.searchsorted(edges[:, 1], [position, position + 1])
        for edge in range(*starts):
            kind, first, last = (int(part) for part in edges[edge])
            own = units[kind, packed(first, last)]
            fits = promise + raised[kind, packed(first, last)] + rest[last + 1, kind] <= cutoff
            fits &= here.used[:, kind] + own <= market.limits[kind]
            if not market.free:
                fits &= here.last != kind
            chosen = np.flatnonzero(fits)
            if len(chosen):
                arriving[last + 1].append(_extended(here, chosen, edge, (kind, own, own * market.prices[kind])))
    return _best(kept, edges, proven)


def _useful(market: Market, weights: Floats, rest: Floats, cutoff: float) -> Ints:
    """Return the edges (type, first, last) that lie on some path below the cutoff, limits aside, sorted by first."""
    into = cheapest(weights[None], market.depth, free=market.free).into[0]
    found: list[Ints] = []
    for last in range(market.depth):
        own = weights[:, packed(0, last) : packed(last, last) + 1]
        through = into[: last + 1].T + own + rest[last + 1][:, None]
        kinds, firsts = np.nonzero((through <= cutoff) & np.isfinite(through))
        found.append(np.stack([kinds, firsts, np.full(len(kinds), last)], axis=1))
    edges = np.concatenate(found).astype(np.int64)
    return edges[np.argsort(edges[:, 1], kind="stable")]


def _most_promising(here: _Labels, multipliers: Floats, rest: Floats, size: int) -> _Labels:
    """Return the labels with the least bounds."""
    promise = here.price + here.used @ multipliers + rest[here.last]
    return _taken(here, np.argsort(promise, kind="stable")[:size])


def _extended(here: _Labels, chosen: Ints, edge: int, stage: tuple[int, float, float]) -> _Labels:
    """Return some labels with a stage added: its type, units and price."""
    kind, units, price = stage
    used = here.used[chosen]
    used[:, kind] += units
    size = len(chosen)
    return _Labels(here.price[chosen] + price, used, np.full(size, kind), chosen, np.full(size, edge))


def _joined(parts: list[_Labels]) -> _Labels:
    return _Labels(
        np.concatenate([part.price for part in parts]),
        np.concatenate([part.used for part in parts]),
        np.concatenate([part.last for part in parts]),
        np.concatenate([part.parent for part in parts]),
        np.concatenate([part.edge for part in parts]),
    )


def _taken(here: _Labels, rows: Ints) -> _Labels:
    return _Labels(here.price[rows], here.used[rows], here.last[rows], here.parent[rows], here.edge[rows])


def _undominated(here: _Labels) -> _Labels:
    """Return the labels that no other beats: same last type, no dearer, no more units of any type."""
    here = _taken(here, np.lexsort((here.used.sum(axis=1), here.price)))
    # Rows come by rising price, so an earlier one of the same type beats a later one by units alone.
    beats = here.last[:, None] == here.last
    for used in here.used.T:
        beats &= used[:, None] <= used
    beaten = np.triu(beats, 1).any(axis=0)
    return _taken(here, np.flatnonzero(~beaten))


def _best(kept: list[_Labels | None], edges: Ints, proven: bool) -> Found:
    done = kept[-1]
    if done is None or not len(done.price):
        return Found(np.inf, (), proven)
    least = done.price.min()
    tied = np.flatnonzero(done.price <= least * (1 + 1e-12))
    label = int(tied[done.used[tied].sum(axis=1).argmin()])
    path: list[Edge] = []
    here: _Labels | None = done
    while here is not None and here.edge[label] >= 0:
        kind, first, last = (int(part) for part in edges[here.edge[label]])
        path.append((kind, first, last))
        label, here = int(here.parent[label]), kept[first]
    return Found(float(least), path[::-1], proven)
