"""Prices raised where a type is short: a lower bound when the units of a type run out.

With a multiplier m >= 0 for each type that has a limit,

    sum of units x price  >=  D(m) = least over paths of units x (price + m)  -  m . limits

for every plan within the limits. D is concave, and every path that is cheapest at some m is a
plane above it: price(path) + m . (used(path) - limits). The best m is found by such planes
(cutting planes, Kelley 1960) in a box around the best m so far, which grows when D does
and shrinks when it does not. The next m is not where the least plane is highest, which is a corner
and jumps about, but near it: the centre of what lies between the planes, the box and a floor,

    max over m, t of  sum of log(plane - t) + log(m - low) + log(high - m) + w log(t - floor)

by a few Newton steps. The rows are times tau; they share every numpy call.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from cotune.placement.paths import Edges, cheapest
from cotune.placement.problems import SLACK
from cotune.types import Floats, Ints, Mask

_GROW, _SHRINK = 1.5, 0.6  # the box, after a higher bound and after none
_PULL = 10.0  # w, per plane: how near the highest point the centre lies
_NEWTON = 8
_INSIDE = 1e-3  # of the box and of the height: how far inside all planes the steps begin
_ALMOST = 0.9  # of the way to the nearest plane that a step may go


@dataclass(frozen=True, slots=True)
class Market:
    """What does not depend on tau: prices, limits, and how stages may follow one another."""

    prices: Floats
    limits: Floats
    free: bool

    def spare(self, multipliers: Floats) -> Floats:
        """Return m . limits of every row of multipliers."""
        spare: Floats = multipliers @ np.where(np.isfinite(self.limits), self.limits, 0.0)
        return spare

    def heaviest(self, multipliers: Floats) -> Mask:
        """Return the two types whose multipliers add most to the bound."""
        weight = multipliers * np.where(np.isfinite(self.limits), self.limits, 0.0)
        heavy: Mask = (weight > 0) & (weight >= np.sort(weight)[-2:][0])
        return heavy

    def weights(self, edges: Edges, units: Floats, multipliers: Floats) -> Floats:
        """Return units x (price + m) of (edges, rows), infinite where there are no such units (also if free)."""
        raised = (self.prices + multipliers).T[edges.kind]
        if raised.all():
            return units * raised
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(units), np.inf, units * raised)


@dataclass(slots=True)
class Ascent:
    """Where some rows stand: their best multipliers and bounds, and the cheapest path that fits, if any did."""

    multipliers: Floats  # (rows, types)
    bound: Floats
    price: Floats  # infinite where no path fitted
    path: list[Ints]


def used_by(edges: Edges, chosen: Ints, units: Floats) -> Floats:
    """Return (rows, types): the units that the paths of (stages, rows) take; -1 is no stage."""
    stage, row = np.nonzero(chosen >= 0)
    edge = chosen[stage, row]
    used = np.zeros((chosen.shape[1], edges.types))
    np.add.at(used, (row, edges.kind[edge]), units[edge, row])
    return used


def ascend(
    market: Market,
    edges: Edges,
    units: Floats,
    *,
    cutoffs: Floats,
    start: Floats,
    radius: float,
    rounds: int,
    deadline: float,
) -> Ascent:
    """Return good multipliers for every row of units; a row rests once its bound passes its cutoff.

    The first box reaches `radius` prices from the start.
    """
    climb = _Climb(market, cutoffs, start, radius)
    for past in range(rounds):
        rows = np.flatnonzero(climb.on)
        if not len(rows) or (past and time.monotonic() > deadline):
            break
        own, now = units[:, rows], climb.now[rows]
        paths = cheapest(edges, market.weights(edges, own, now), free=market.free)
        chosen = paths.chosen()
        climb.take(rows, paths.least - market.spare(now), chosen, used_by(edges, chosen, own))
        climb.move(np.flatnonzero(climb.on))
    return climb.found


class _Climb:
    """The way up of all rows: where each stands, the planes it knows, and how far it may go."""

    def __init__(self, market: Market, cutoffs: Floats, start: Floats, radius: float) -> None:
        rows, types = start.shape
        none = np.array([], dtype=np.int64)
        self.market, self.cutoffs, self.now = market, cutoffs, start.copy()
        self.found = Ascent(start.copy(), np.full(rows, -np.inf), np.full(rows, np.inf), [none] * rows)
        self.scale = np.where(market.prices > 0, market.prices, market.prices.mean() or 1.0)
        self.radius = np.full(rows, radius)
        self.on: Mask = np.ones(rows, dtype=np.bool_)
        self.heights = np.zeros((rows, 0))  # of planes where m = 0, infinite where a row has none
        self.slopes = np.zeros((rows, 0, types))

    def take(self, rows: Ints, bound: Floats, chosen: Ints, used: Floats) -> None:
        """Take in the cheapest paths at the present multipliers."""
        found, market = self.found, self.market
        price = used @ market.prices
        fit = np.where(np.isfinite(bound) & (used <= market.limits).all(axis=1), price, np.inf)
        for place in np.flatnonzero(fit < found.price[rows]):
            found.path[rows[place]] = chosen[chosen[:, place] >= 0, place][::-1]
        found.price[rows] = np.minimum(found.price[rows], fit)
        higher = bound > found.bound[rows]
        self.radius[rows] *= np.where(higher, _GROW, _SHRINK)
        found.multipliers[rows[higher]] = self.now[rows[higher]]
        found.bound[rows] = np.maximum(found.bound[rows], bound)
        heights, slopes = np.full((len(self.now), 1), np.inf), np.zeros((len(self.now), 1, used.shape[1]))
        heights[rows, 0] = price
        slopes[rows, 0] = np.where(np.isfinite(market.limits), used - market.limits, 0.0)
        self.heights = np.concatenate([self.heights, heights], axis=1)
        self.slopes = np.concatenate([self.slopes, slopes], axis=1)
        closed = found.bound[rows] > self.cutoffs[rows]
        solved = found.price[rows] <= found.bound[rows] * (1 + SLACK)
        self.on[rows] &= ~(closed | solved)

    def move(self, rows: Ints) -> None:
        """Go where the planes seem highest, within the box."""
        if not len(rows):
            return
        best, radius = self.found.multipliers[rows] / self.scale, self.radius[rows, None]
        unit = np.abs(self.found.bound[rows])
        unit[unit == 0] = 1.0
        heights, slopes = self.heights[rows] / unit[:, None], self.slopes[rows] * self.scale / unit[:, None, None]
        found = centre(heights, slopes, best, np.maximum(best - radius, 0.0), best + radius) * self.scale
        self.now[rows] = np.where(np.isfinite(self.market.limits), found, 0.0)  # without a limit nothing is short


def centre(heights: Floats, slopes: Floats, start: Floats, low: Floats, high: Floats) -> Floats:
    """Return for every row the centre below its planes (rows, planes) and within its box; infinite heights are none."""
    types = slopes.shape[2]
    known = np.isfinite(heights)
    heights = np.where(known, heights, 0.0)
    rim = _INSIDE * (high - low)
    m = np.clip(start, low + rim, high - rim)
    least = np.where(known, heights + np.einsum("rpt,rt->rp", slopes, m), np.inf).min(axis=1)
    step = np.maximum(_INSIDE * np.abs(least), 1e-9)
    t, floor = least - step, least - 2 * step
    normals = np.concatenate([slopes, np.full((*known.shape, 1), -1.0)], axis=2) * known[:, :, None]
    pull = _PULL * known.sum(axis=1)
    every = np.arange(types)
    for _ in range(_NEWTON):
        slack = np.where(known, heights + np.einsum("rpt,rt->rp", slopes, m) - t[:, None], 1.0)
        below, above, over = m - low, high - m, t - floor
        scaled = normals / slack[:, :, None]
        gradient, hessian = scaled.sum(axis=1), scaled.transpose(0, 2, 1) @ scaled
        gradient[:, :types] += 1 / below - 1 / above
        gradient[:, types] += pull / over
        hessian[:, every, every] += 1 / below**2 + 1 / above**2
        hessian[:, types, types] += pull / over**2
        move = np.linalg.solve(hessian, gradient[:, :, None])
        dm, dt = move[:, :types, 0], move[:, types, 0]
        # How fast each distance shrinks, in its own length: the fastest says how far a step may go.
        shrinking = np.hstack([-(scaled @ move)[:, :, 0], -dm / below, dm / above, -(dt / over)[:, None]]).max(axis=1)
        far = np.minimum(1.0, _ALMOST / np.maximum(shrinking, _INSIDE))
        m, t = m + far[:, None] * dm, t + far * dt
    return m
