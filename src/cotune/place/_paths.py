"""Cheapest ways to cut the layers into stages, for many times tau at once.

    best(r + 1, t) = min over first <= r of  weight(t, first..r) + into(first, t)
    into(j, t)     = min over t' != t of best(j, t')        (any t' where cuts are free)

This is a shortest path over the positions of cuts; without limits it is the optimum for
a tau in O(depth^2 types), and with limits a lower bound. The taus share every numpy call,
so sixteen of them take little longer than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotune.place.stage_times import packed
from cotune.types import Floats

Edge = tuple[int, int, int]  # type, first layer, last layer
_TIGHT = 1e-12


@dataclass(frozen=True, slots=True)
class Paths:
    """The least weights of covering the first layers, per row, position and type of the last stage."""

    weights: Floats  # (rows, types, stages)
    best: Floats  # (rows, depth + 1, types)
    into: Floats  # (rows, depth + 1, types)
    free: bool

    @property
    def least(self) -> Floats:
        """Return the least weight of covering every layer, per row."""
        least: Floats = self.best[:, -1].min(axis=1)
        return least

    def path(self, row: int) -> Sequence[Edge]:
        """Return a path of least weight."""
        weights, best, into = self.weights[row], self.best[row], self.into[row]
        end = best.shape[0] - 1
        kind = int(best[end].argmin())
        edges: list[Edge] = []
        while end:
            start = packed(0, end - 1)
            first = int((weights[kind, start : start + end] + into[:end, kind]).argmin())
            edges.append((kind, first, end - 1))
            if first:
                kind = int(np.argmax(best[first] == into[first, kind])) if self.free else _other(best[first], kind)
            end = first
        return edges[::-1]

    def leanest(self, row: int, units: Floats) -> Sequence[Edge]:
        """Return of all paths of least weight the one with the fewest units (types, stages)."""
        weights, best, into = self.weights[row], self.best[row], self.into[row]
        depth = best.shape[0] - 1
        ends = [(depth, int(kind)) for kind in np.flatnonzero(best[depth] <= best[depth].min() * (1 + _TIGHT))]
        tight: dict[tuple[int, int], list[int]] = {}
        open_ = list(ends)
        while open_:
            end, kind = open_.pop()
            if (end, kind) in tight:
                continue
            start = packed(0, end - 1)
            total = weights[kind, start : start + end] + into[:end, kind]
            tight[end, kind] = [int(first) for first in np.flatnonzero(total <= best[end, kind] * (1 + _TIGHT))]
            open_ += [state for first in tight[end, kind] if first for state in self._before(row, first, kind)]
        return self._fewest(row, tight, ends, units)

    def _before(self, row: int, first: int, kind: int) -> list[tuple[int, int]]:
        """Return the tight states from which a stage of a type may start."""
        level = self.best[row, first] <= self.into[row, first, kind] * (1 + _TIGHT)
        level[kind] &= self.free
        return [(first, int(other)) for other in np.flatnonzero(level)]

    def _fewest(
        self,
        row: int,
        tight: dict[tuple[int, int], list[int]],
        ends: list[tuple[int, int]],
        units: Floats,
    ) -> Sequence[Edge]:
        chosen: dict[tuple[int, int], tuple[float, int, tuple[int, int] | None]] = {}
        for end, kind in sorted(tight):
            options: list[tuple[float, int, tuple[int, int] | None]] = []
            for first in tight[end, kind]:
                own = float(units[kind, packed(first, end - 1)])
                if first == 0:
                    options.append((own, 0, None))
                else:
                    before = min(self._before(row, first, kind), key=lambda state: chosen[state][0])
                    options.append((own + chosen[before][0], first, before))
            chosen[end, kind] = min(options, key=lambda option: option[0])
        state: tuple[int, int] | None = min(ends, key=lambda end: chosen[end][0])
        edges: list[Edge] = []
        while state is not None:
            (end, kind), (_, first, before_state) = state, chosen[state]
            edges.append((kind, first, end - 1))
            state = before_state
        return edges[::-1]


def _other(values: Floats, kind: int) -> int:
    """Return the place of the least value that is not at `kind`."""
    rest = values.copy()
    rest[kind] = np.inf
    return int(rest.argmin())


def cheapest(weights: Floats, depth: int, *, free: bool, join: np.ufunc = np.add) -> Paths:
    """Return the least weights of every row of (rows, types, stages); `join` puts stages together."""
    rows, types, _ = weights.shape
    best = np.full((rows, depth + 1, types), np.inf)
    into = np.zeros((rows, depth + 1, types))
    by_start = np.zeros((rows, types, depth + 1))  # `into` with the positions last: one contiguous block per type
    for last in range(depth):
        start = packed(0, last)
        total = join(weights[:, :, start : start + last + 1], by_start[:, :, : last + 1])
        best[:, last + 1] = total.min(axis=2)
        into[:, last + 1] = _least_other(best[:, last + 1], free=free)
        by_start[:, :, last + 1] = into[:, last + 1]
    return Paths(weights, best, into, free)


def remaining(weights: Floats, depth: int, *, free: bool) -> Floats:
    """Return (depth + 1, types): the least weight of the layers from a position on, after a stage of a type."""
    types = weights.shape[0]
    after = np.zeros((depth + 1, types))
    lasts = np.arange(depth)
    offsets = lasts * (lasts + 1) // 2
    for first in range(depth - 1, -1, -1):
        total = weights[:, offsets[first:] + first] + after[first + 1 :].T
        after[first] = _least_other(total.min(axis=1)[None], free=free)[0]
    return after


def _least_other(values: Floats, *, free: bool) -> Floats:
    """Return for each column the least of the other columns (of all columns where cuts are free)."""
    types = values.shape[1]
    if free:
        return np.broadcast_to(values.min(axis=1, keepdims=True), values.shape)
    if types == 1:
        return np.full_like(values, np.inf)
    if types == 2:
        return values[:, ::-1]
    two = np.partition(values, 1, axis=1)
    return np.where(values == two[:, :1], two[:, 1:2], two[:, :1])
