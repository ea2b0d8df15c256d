"""Every way to place layers by its name: the methods of `place/` and the searches of `plan/`."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from cotune import registry
from cotune.errors import NotFound, suggestion
from cotune.placement.counts import Provisioning
from cotune.placement.layer_space import Assignments, features
from cotune.placement.method import Method
from cotune.placement.problems import Placement, Problem
from cotune.placement.profiles import Profile
from cotune.plan import Search


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
        known_counts = is_dataclass(method) and any(field.name == "counts" for field in fields(method))
        chosen: Method = replace(method, counts=counts) if known_counts and counts != "exact" else method
        return chosen
    if name not in registry.names("search"):
        known = sorted({*registry.names("placement"), *registry.names("search")})
        raise NotFound(f"no search named {name!r}; there are {', '.join(known)}{suggestion(name, known)}")
    search = registry.create("search", text)
    if name == "reinforce":
        search = replace(search, features=features(profile, problem))
    return Searched(search, counts)
