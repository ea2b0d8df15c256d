"""Every way to place layers by its name: the methods of `place/` and the searches of `plan/`."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from cotune import algorithms
from cotune.errors import NotFound, suggestion
from cotune.place import Method
from cotune.place.counts import Provisioning
from cotune.place.layer_space import Assignments, features
from cotune.place.problems import Placement, Problem
from cotune.place.profiles import Profile
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
    if name in algorithms.names("place"):
        method: Method = algorithms.create("place", text)
        return method
    if name not in algorithms.names("plan"):
        known = sorted({*algorithms.names("place"), *algorithms.names("plan")})
        raise NotFound(f"no search named {name!r}; there are {', '.join(known)}{suggestion(name, known)}")
    search = algorithms.create("plan", text)
    if name == "reinforce":
        search = replace(search, features=features(profile, problem))
    return Searched(search)
