"""Placing layers on types of device, by any method of its name: those of `placements/` and the searches of `plan/`.

A placement method is one class, found by its name. `exact` proves its answer; the others are rules that people use. A
placement is also a space like any other, one axis per layer, its values the types, so every search of `plan/` works on
it. The rank of a point is (cost, units, seconds) with exact counts; a point that cannot reach the throughput is
infinite, then the nearer the less slow.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Protocol

import numpy as np

from cotune import registry
from cotune.errors import NotFound, suggestion
from cotune.placement.problems import Placement, Problem
from cotune.placement.profiles import Profile
from cotune.placement.provisioning import Provisioning, provide, runs_of
from cotune.plan import Search
from cotune.space import Axis, Space
from cotune.types import Floats, Ints


class Method(Protocol):
    """What places layers."""

    def place(self, problem: Problem, rng: random.Random) -> Placement | None:
        """Return a plan that reaches the throughput within the limits, or None."""
        ...


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


@dataclass(frozen=True, slots=True)
class Searched:
    """A search over assignments of layers to types, each with exact (or balanced) counts."""

    search: Search
    counts: Provisioning = "exact"

    def place(self, problem: Problem, rng: random.Random) -> Placement | None:
        return Assignments(problem, self.counts).search(self.search, rng)


def method_of(text: str, profile: Profile, problem: Problem, counts: Provisioning = "exact") -> Method:
    """Return the method named by 'name' or 'name(setting=value)', with counts of units as they are asked for."""
    name = text.partition("(")[0].strip()
    if name in registry.names("placement"):
        method: Any = registry.create("placement", text)
        known_counts = is_dataclass(method) and "counts" in {one.name for one in fields(method)}
        chosen: Method = replace(method, counts=counts) if known_counts and counts != "exact" else method
        return chosen
    if name not in registry.names("search"):
        known = sorted({*registry.names("placement"), *registry.names("search")})
        raise NotFound(f"no search named {name!r}; there are {', '.join(known)}{suggestion(name, known)}")
    search = registry.create("search", text)
    if name == "reinforce":
        search = replace(search, features=features(profile, problem))
    return Searched(search, counts)


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
