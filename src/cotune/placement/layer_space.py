"""A placement as a space like any other: one axis per layer, its values the types.

Every search of `plan/` works on it. The rank of a point is (cost, units, seconds) with exact
counts; a point that cannot reach the throughput is infinite, then the nearer the less slow.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from cotune.placement.counts import Provisioning, provide, runs_of
from cotune.placement.problems import Placement, Problem
from cotune.placement.profiles import Profile
from cotune.plan import Search
from cotune.space import Axis, Space
from cotune.types import Floats, Ints


@dataclass(frozen=True)
class Assignments:
    """Ranks assignments of layers to types, each once."""

    problem: Problem
    counts: Provisioning = "exact"
    known: dict[tuple[int, ...], tuple[float, float, float]] = field(default_factory=dict)

    @property
    def space(self) -> Space:
        return Space(tuple(Axis(f"layer {layer}", self.problem.types) for layer in range(self.problem.depth)))

    def plan(self, assignment: tuple[int, ...]) -> Placement | None:
        """Return the placement of one type per layer."""
        return provide(self.problem, runs_of(assignment), self.counts)

    def rank(self, points: Ints) -> Floats:
        """Return the keys of some assignments."""
        return np.array([self._key(tuple(int(kind) for kind in point)) for point in points])

    def _key(self, assignment: tuple[int, ...]) -> tuple[float, float, float]:
        key = self.known.get(assignment)
        if key is None:
            plan = self.plan(assignment)
            if plan is None:
                fastest = max(self.problem.stages.fastest_of(*edge) for edge in runs_of(assignment))
                key = (np.inf, fastest, 0.0)
            else:
                key = (plan.cost_per_million, float(plan.units), plan.seconds)
            self.known[assignment] = key
        return key

    def search(self, search: Search, rng: random.Random) -> Placement | None:
        """Return the plan that a search finds, None where it finds none that reaches the throughput."""
        return self.plan(search.search(self.space, self.rank, rng))


def features(profile: Profile, problem: Problem) -> tuple[tuple[float, ...], ...]:
    """Return HeterPS's features of each layer beside its index: kind, input size, weight size, communication."""
    kinds = sorted({layer.kind for layer in profile.layers})
    columns = [
        profile.input_bytes or [layer.input_bytes or 0.0 for layer in profile.layers],
        profile.weight_bytes or [layer.weight_bytes or 0.0 for layer in profile.layers],
        [_communication(layer.sync) + _communication(layer.cut_before) for layer in profile.layers],
    ]
    scaled = [[number / (max(column) or 1.0) for number in column] for column in columns]
    return tuple(
        (*(float(layer.kind == kind) for kind in kinds), *(column[place] for column in scaled))
        for place, layer in enumerate(profile.layers[: problem.depth])
    )


def _communication(seconds: list[float | None] | None) -> float:
    known = [value for value in seconds or [] if value is not None]
    return sum(known) / len(known) if known else 0.0
