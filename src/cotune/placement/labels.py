"""The cheapest stages within limits for one tau, by labels: what multipliers leave open, settled.

A label is a way to cover the layers up to a cut: its last type and the units used of each
type. Of the limits only those of some critical types are kept, the others stay at their
multipliers m:

    cost(label) = used . price  +  sum over other types of m x used

A label is extended stage by stage, and dropped when others are no dearer, use no more of any
critical type and can be followed by the same stages, or when

    cost  +  sum over critical types of m x used  +  the least rest at price + m  -  m . limits

exceeds the cutoff. Nothing else is dropped, so the least cost (less m . limits of the others)
bounds every plan from below, and is its price where the plan fits and multipliers act only on
limits that it exhausts. Otherwise the types that it breaks become critical too. A beam goes
on with the most promising labels only: it finds good plans early, and proves nothing.
"""

from __future__ import annotations

import itertools
import sys
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cotune.placement.multipliers import Market
from cotune.placement.paths import Edges, cheapest, remaining
from cotune.placement.problems import SLACK
from cotune.types import Floats, Ints, Mask

_CROWD = 3  # times the width of a beam: labels of which the most promising are taken
_BLOCK = 128  # labels compared at a time
_LEAN = 1e-10  # of the least price is added to all, so that of plans of equal price that with fewer units is cheaper


@dataclass(frozen=True, slots=True)
class Graph:
    """The edges for one tau that may lie on a path below the cutoff, what they take, and the least that follows."""

    market: Market
    edges: Edges
    units: Floats  # per edge
    multipliers: Floats  # per type
    ahead: Floats  # per edge: the least rest of the way at raised prices, less m . limits
    cutoff: float
    order: Ints  # the edges that may, by first layer and last
    start: Ints  # those from cut c on are order[start[c]:start[c + 1]]


class Graphs(NamedTuple):
    """The same for several times at once."""

    market: Market
    edges: Edges
    units: Floats  # (edges, rows)
    multipliers: Floats  # (rows, types)
    ahead: Floats  # (edges, rows)
    through: Floats  # (edges, rows) a bound on the price of every path with an edge

    def at(self, row: int, cutoff: float) -> Graph:
        edges = self.edges
        alive = np.flatnonzero(self.through[:, row] <= min(cutoff, sys.float_info.max))
        order = alive[np.lexsort((edges.last[alive], edges.first[alive]))]
        start = np.searchsorted(edges.first[order], np.arange(edges.depth + 1))
        own = self.multipliers[row]
        return Graph(self.market, edges, self.units[:, row], own, self.ahead[:, row], cutoff, order, start)


def graphs(market: Market, edges: Edges, units: Floats, multipliers: Floats) -> Graphs:
    """Return what paths through every edge take at least, for (edges, rows) of units."""
    weights = market.weights(edges, units, multipliers)
    totals = cheapest(edges, weights, free=market.free).totals
    ahead = remaining(edges, weights, free=market.free)[edges.ends] - market.spare(multipliers)
    return Graphs(market, edges, units, multipliers, ahead, totals + ahead)


class Found(NamedTuple):
    """A lower bound on the price of every path within the limits and the cutoff, and a path that fits, if one is known.

    Proven: the path is the cheapest, or there is none.
    """

    bound: float
    path: Ints
    proven: bool
    critical: Mask


def settle(graph: Graph, critical: Mask, *, width: int, deadline: float) -> Found:
    """Return the cheapest path within limits whose price is at most the cutoff, making types critical as needed.

    When there are more than `width` labels at a cut the search gives up, as it does at the deadline.
    """
    market, limits = graph.market, graph.market.limits
    bound, none = -np.inf, np.array([], dtype=np.int64)
    while True:
        tree = _Tree(graph, critical)
        if not tree.grow(width, deadline):
            return Found(max(bound, tree.bound), none, False, critical)
        cost, path, used = tree.best()
        if not len(path):
            return Found(np.inf, none, True, critical)
        bound = max(bound, cost)
        wrong = (used > limits) | ((graph.multipliers > 0) & (used < limits))
        if not (wrong & ~critical).any() or (np.all(used <= limits) and used @ market.prices <= bound * (1 + SLACK)):
            return Found(bound, path, True, critical)
        critical = critical | wrong


def beam(graph: Graph, *, width: int, deadline: float) -> Ints:
    """Return a good path within limits, or none: nothing is proven."""
    tree = _Tree(graph, np.isfinite(graph.market.limits))
    tree.grow(width, deadline, beam=True)
    return tree.best()[1]


class _Labels(NamedTuple):
    """Ways to cover the layers up to one cut; parents are places among the labels where the last edge starts."""

    used: Floats  # (labels, types)
    parent: Ints
    edge: Ints

    def take(self, rows: Ints) -> _Labels:
        return _Labels(self.used[rows], self.parent[rows], self.edge[rows])


class _Tree:
    """The labels of every cut."""

    def __init__(self, graph: Graph, critical: Mask) -> None:
        types, depth, market = graph.edges.types, graph.edges.depth, graph.market
        self.graph, self.critical = graph, np.flatnonzero(critical)
        self.raised = market.prices + graph.multipliers
        priced = market.prices[market.prices > 0]
        self.lean = _LEAN * (priced.min() if len(priced) else 1.0)
        others = np.where(critical, 0.0, graph.multipliers)
        self.prices = market.prices + others
        self.spare = float(market.spare(others))
        self.limits = np.where(critical, market.limits, np.inf)
        empty = np.zeros(0, dtype=np.int64)
        self.kept = [_Labels(np.zeros((0, types)), empty, empty)] * (depth + 1)
        self.kept[0] = _Labels(np.zeros((1, types)), np.array([-1]), np.array([-1]))
        self.arriving: list[list[tuple[Ints, Ints]]] = [[] for _ in range(depth + 1)]
        self.least = np.full(depth + 1, np.inf)  # of the bounds of all labels that arrive at a cut
        self.least[0] = self.bound = -np.inf

    def grow(self, width: int, deadline: float, *, beam: bool = False) -> bool:
        """Extend labels from cut to cut; return False where they became too many, or it took too long.

        What then waits at this cut and beyond holds all that could have become of it, so the least bound there is one.
        """
        for cut in range(self.graph.edges.depth):
            if cut and not self._arrive(cut):
                continue
            if cut:
                self._compare(cut, width, deadline, beam=beam)
            if (len(self.kept[cut].edge) > width and not beam) or time.monotonic() > deadline:
                self.bound = float(self.least[cut:].min())
                return False
            self._extend(cut)
        self._arrive(self.graph.edges.depth)
        return True

    def _arrive(self, cut: int) -> bool:
        """Gather the labels that arrive at a cut; return whether there are any."""
        parts = self.arriving[cut]
        if not parts:
            return False
        edges = self.graph.edges
        used = np.concatenate([self.kept[edges.first[chosen[0]]].used[parents] for parents, chosen in parts])
        parent, edge = (np.concatenate(column) for column in zip(*parts, strict=True))
        used[np.arange(len(edge)), edges.kind[edge]] += self.graph.units[edge]
        self.kept[cut] = _Labels(used, parent, edge)
        return True

    def _compare(self, cut: int, width: int, deadline: float, *, beam: bool) -> None:
        """Drop the labels of a cut that others beat, and in a beam all but the most promising."""
        here = self.kept[cut]
        if beam:
            here = self._undominated(self._promising(here, _CROWD * width), _CROWD * width, deadline)
            self.kept[cut] = self._promising(here, width)
        else:
            self.kept[cut] = self._undominated(here, width, deadline)

    def _promising(self, here: _Labels, width: int) -> _Labels:
        """Return the labels with the least bounds."""
        if len(here.edge) <= width:
            return here
        promise = here.used @ self.raised + self.graph.ahead[here.edge]
        return here.take(np.argpartition(promise, width)[:width])

    def _extend(self, cut: int) -> None:
        """Send the labels of a cut along every edge that keeps them within limits and cutoff."""
        graph, here = self.graph, self.kept[cut]
        edges = graph.order[graph.start[cut] : graph.start[cut + 1]]
        kinds, own = graph.edges.kind[edges], graph.units[edges]
        behind = own * self.raised[kinds] + graph.ahead[edges]
        promise = here.used @ self.raised + behind[:, None]
        fits = promise <= graph.cutoff
        fits &= here.used.T[kinds] <= (self.limits[kinds] - own)[:, None]
        if cut and not graph.market.free:
            fits &= graph.edges.kind[here.edge] != kinds[:, None]
        place, parents = np.nonzero(fits)
        if not len(place):
            return
        chosen = edges[place]
        ends = graph.edges.last[chosen] + 1
        np.minimum.at(self.least, ends, promise[place, parents])
        starts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(ends)]
        for begin, end in itertools.pairwise(starts):
            self.arriving[ends[begin]].append((parents[begin:end], chosen[begin:end]))

    def best(self) -> tuple[float, Ints, Floats]:
        """Return the least cost of covering all layers, the path that has it, and the units it uses."""
        here = self.kept[-1]
        if not len(here.edge):
            return np.inf, here.edge, np.zeros(self.graph.edges.types)
        label = int((here.used @ (self.prices + self.lean)).argmin())
        used = here.used[label]
        path: list[int] = []
        while here.edge[label] >= 0:
            edge = int(here.edge[label])
            path.append(edge)
            label, here = int(here.parent[label]), self.kept[self.graph.edges.first[edge]]
        return float(used @ self.prices) - self.spare, np.array(path[::-1]), used

    def _undominated(self, here: _Labels, most: int, deadline: float) -> _Labels:
        """Return the labels that are not beaten by one of the same last type, or by two of different last types.

        No more than about `most` of them are looked for, and none after the deadline.
        """
        here = here.take(np.argsort(here.used @ (self.prices + self.lean), kind="stable"))
        # Labels come by rising cost, so an earlier one beats a later one by units alone.
        kept = np.zeros(0, dtype=np.int64)
        for begin in range(0, len(here.edge), _BLOCK):
            block = np.arange(begin, min(begin + _BLOCK, len(here.edge)))
            earlier = np.concatenate([kept, block])
            beaten = self._beaten(here, earlier, block)
            kept = earlier[np.concatenate([np.ones(len(kept), dtype=np.bool_), ~beaten])]
            if len(kept) > most or time.monotonic() > deadline:
                break
        return here.take(kept)

    def _beaten(self, here: _Labels, earlier: Ints, block: Ints) -> Mask:
        beats = earlier[:, None] < block
        for used in here.used.T[self.critical]:
            beats &= used[earlier][:, None] <= used[block]
        if self.graph.market.free:
            one: Mask = np.any(beats, axis=0)
            return one
        kinds = self.graph.edges.kind[here.edge]
        first = beats.argmax(axis=0)
        own = kinds[earlier][:, None]
        # The first that beats it, and another whose last type is not the same: one of them can go on as it could.
        beaten: Mask = np.any(beats & ((own != own[first].T) | (own == kinds[block])), axis=0)
        return beaten
