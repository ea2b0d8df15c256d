"""Cheapest ways to cut the layers into stages, for many times tau at once.

    best(r + 1, t) = min over edges first..r on t of  weight(edge) + into(first, t)
    into(j, t)     = min over t' != t of best(j, t')        (any t' where cuts are free)

This is a shortest path over the positions of cuts; without limits it is the optimum for
a tau in O(edges), and with limits a lower bound. The taus share every numpy call, so sixteen
of them take little longer than one.

An edge is a stage that may be part of a plan: it goes from the cut before its first layer to the cut behind its last
one. A state is such a cut and the type of the stage that ends there; state = cut x types + type. Edges are sorted by
last layer and then by type, so those that end in one state lie side by side, and one step of a path over all states of
a cut is a few numpy calls, however many edges there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cotune.types import Floats, Ints, Mask

Edge = tuple[int, int, int]  # type, first layer, last layer
_TIGHT = 1e-12
_State = tuple[int, int]  # cut, type of the stage that ends there


class EdgeStep(NamedTuple):
    """The edges that end at one cut."""

    edges: slice
    sources: Ints  # the state before each edge: its first cut, and the type that the stage before must not be
    groups: Ints  # where the edges of each type begin, within the slice
    kinds: Ints  # the type of each group
    states: slice  # of the cut


@dataclass(frozen=True)
class Edges:
    """Runs of layers on types, sorted by last layer, then type."""

    depth: int
    types: int
    kind: Ints
    first: Ints
    last: Ints

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, place: int) -> Edge:
        return int(self.kind[place]), int(self.first[place]), int(self.last[place])

    def only(self, keep: Mask) -> Edges:
        return Edges(self.depth, self.types, self.kind[keep], self.first[keep], self.last[keep])

    @cached_property
    def ends(self) -> Ints:
        """Return the state in which each edge ends."""
        ends: Ints = (self.last + 1) * self.types + self.kind
        return ends

    @cached_property
    def sources(self) -> Ints:
        """Return the state (first cut, own type) in which each edge starts."""
        sources: Ints = self.first * self.types + self.kind
        return sources

    @cached_property
    def bounds(self) -> Ints:
        """Return where the edges into each state begin; those into state s are bounds[s]..bounds[s + 1]."""
        return np.searchsorted(self.ends, np.arange((self.depth + 1) * self.types + 1))

    @cached_property
    def steps(self) -> list[EdgeStep]:
        """Return the edges into every cut that any edge goes to, from the first cut to the last."""
        types, bounds = self.types, self.bounds
        found = []
        for state in range(types, (self.depth + 1) * types, types):
            starts = bounds[state : state + types + 1]
            begin, end = int(starts[0]), int(starts[-1])
            if begin < end:
                kinds = np.flatnonzero(np.diff(starts))
                states = slice(state, state + types)
                found.append(EdgeStep(slice(begin, end), self.sources[begin:end], starts[kinds] - begin, kinds, states))
        return found

    @cached_property
    def mirrored(self) -> tuple[Edges, Ints]:
        """Return the same stages with the layers counted from the end, and the place of each among these."""
        first, last = self.depth - 1 - self.last, self.depth - 1 - self.first
        order = np.lexsort((self.kind, last))
        return Edges(self.depth, self.types, self.kind[order], first[order], last[order]), order


@dataclass(frozen=True, slots=True)
class Paths:
    """The least weights of covering the first layers, per state and row."""

    edges: Edges
    totals: Floats  # (edges, rows) the least weight of a path that ends with an edge
    best: Floats  # (states, rows)
    into: Floats  # (states, rows) the least weight before a stage of the state's type that starts at its cut
    free: bool

    @property
    def least(self) -> Floats:
        """Return the least weight of covering every layer, per row."""
        least: Floats = self.best[-self.edges.types :].min(axis=0)
        return least

    def chosen(self) -> Ints:
        """Return (stages, rows): the edges of a least path of every row from the last stage to the first, then -1."""
        edges, types = self.edges, self.edges.types
        rows = np.flatnonzero(np.isfinite(self.least))
        trail: list[Ints] = []
        cut = np.full(len(rows), edges.depth)
        kind = self.best[-types:, rows].argmin(axis=0)
        every = np.arange(types)
        while len(rows):
            state = cut * types + kind
            begin = edges.bounds[state]
            count = edges.bounds[state + 1] - begin
            reach = np.arange(count.max())
            # Past the end of its own edges a row looks at the last of them again.
            options = begin[:, None] + np.minimum(reach, count[:, None] - 1)
            edge = begin + self.totals[options, rows[:, None]].argmin(axis=1)
            step = np.full(self.best.shape[1], -1)
            step[rows] = edge
            trail.append(step)
            cut = edges.first[edge]
            on = cut > 0
            rows, cut, kind = rows[on], cut[on], kind[on]
            before = self.best[cut[:, None] * types + every, rows[:, None]]
            if not self.free:
                before[np.arange(len(rows)), kind] = np.inf
            kind = before.argmin(axis=1)
        return np.array(trail, dtype=np.int64).reshape(-1, self.best.shape[1])

    def leanest(self, row: int, units: Floats) -> Ints:
        """Return of all paths of least weight the one with the fewest units (one number per edge)."""
        types, best = self.edges.types, self.best[:, row]
        final = best[-types:]
        ends = [(self.edges.depth, int(kind)) for kind in np.flatnonzero(final <= final.min() * (1 + _TIGHT))]
        tight: dict[_State, list[int]] = {}
        open_ = list(ends)
        while open_:
            cut, kind = open_.pop()
            if (cut, kind) in tight:
                continue
            state = cut * types + kind
            begin, end = self.edges.bounds[state : state + 2]
            level = self.totals[begin:end, row] <= best[state] * (1 + _TIGHT)
            tight[cut, kind] = [int(begin + place) for place in np.flatnonzero(level)]
            open_ += [before for edge in tight[cut, kind] for before in self._before(row, edge)]
        return self._fewest(row, tight, ends, units)

    def _before(self, row: int, edge: int) -> list[_State]:
        """Return the tight states from which an edge may start."""
        kind, first, _ = self.edges[edge]
        if first == 0:
            return []
        types = self.edges.types
        here = self.best[first * types : (first + 1) * types, row]
        level = here <= self.into[first * types + kind, row] * (1 + _TIGHT)
        level[kind] &= self.free
        return [(first, int(other)) for other in np.flatnonzero(level)]

    def _fewest(self, row: int, tight: dict[_State, list[int]], ends: list[_State], units: Floats) -> Ints:
        chosen: dict[_State, tuple[float, int, _State | None]] = {}
        for state in sorted(tight):
            options: list[tuple[float, int, _State | None]] = []
            for edge in tight[state]:
                before = min(self._before(row, edge), key=lambda earlier: chosen[earlier][0], default=None)
                so_far = 0.0 if before is None else chosen[before][0]
                options.append((float(units[edge]) + so_far, edge, before))
            chosen[state] = min(options, key=lambda option: option[0])
        here: _State | None = min(ends, key=lambda end: chosen[end][0])
        path: list[int] = []
        while here is not None:
            _, edge, here = chosen[here]
            path.append(edge)
        return np.array(path[::-1])


def cheapest(edges: Edges, weights: Floats, *, free: bool, join: np.ufunc = np.add) -> Paths:
    """Return the least weights of every row of (edges, rows); `join` puts stages together."""
    types, rows = edges.types, weights.shape[1]
    best = np.full(((edges.depth + 1) * types, rows), np.inf)
    into = best.copy()
    into[:types] = 0.0
    totals = np.empty_like(weights)
    for step in edges.steps:
        total = totals[step.edges]
        into.take(step.sources, axis=0, out=total, mode="clip")
        join(total, weights[step.edges], out=total)
        here = best[step.states]
        here[step.kinds] = np.minimum.reduceat(total, step.groups, axis=0)
        into[step.states] = _least_other(here, free=free)
    return Paths(edges, totals, best, into, free)


def remaining(edges: Edges, weights: Floats, *, free: bool) -> Floats:
    """Return (states, rows): the least weight of the layers from a cut on, after a stage of the state's type."""
    mirrored, order = edges.mirrored
    into = cheapest(mirrored, weights[order], free=free).into
    rest: Floats = into.reshape(edges.depth + 1, edges.types, -1)[::-1].reshape(into.shape)
    return rest


def _least_other(values: Floats, *, free: bool) -> Floats:
    """Return for each type the least of the other types (of all types where cuts are free)."""
    types = values.shape[0]
    if free:
        return np.broadcast_to(values.min(axis=0), values.shape)
    if types == 1:
        return np.full_like(values, np.inf)
    if types == 2:
        return values[::-1]
    two = np.partition(values, 1, axis=0)
    others: Floats = np.where(values == two[0], two[1], two[0])
    return others
