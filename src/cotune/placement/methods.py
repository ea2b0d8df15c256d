"""Every way to place layers by its name: the methods of `place/` and the searches of `plan/`."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

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


def method_of(text: str, profile: Profile, problem: Problem) -> Method:
    """Return the method named by 'name' or 'name(setting=value)'."""
    name = text.partition("(")[0].strip()
    if name in registry.names("placement"):
        method: Method = registry.create("placement", text)
        return method
    if name not in registry.names("search"):
        known = sorted({*registry.names("placement"), *registry.names("search")})
        raise NotFound(f"no search named {name!r}; there are {', '.join(known)}{suggestion(name, known)}")
    search = registry.create("search", text)
    if name == "reinforce":
        search = replace(search, features=features(profile, problem))
    return Searched(search)
