"""The stages that may be part of a plan, in the order in which a path over cuts reaches them.

An edge goes from the cut before its first layer to the cut behind its last one. A state is
such a cut and the type of the stage that ends there; state = cut x types + type. Edges are
sorted by last layer and then by type, so those that end in one state lie side by side, and
one step of a path over all states of a cut is a few numpy calls, however many edges there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cotune.types import Ints, Mask

Edge = tuple[int, int, int]  # type, first layer, last layer


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
