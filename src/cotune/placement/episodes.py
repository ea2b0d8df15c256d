"""The second phase of HeterPS: a policy that learns from plans that were really run.

    episode   the policy draws a type for each layer ─▶ units ─▶ a short pipeline of real processes ─▶ examples/s
    reward    - measured cost of a million examples; a plan that is slower than asked for is penalised

Each assignment is run once; drawn again, it costs what it cost. What the search by the cost model alone found, and the
exact plan, are run too, so that all of them can be compared by what they really cost.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from cotune import registry
from cotune.errors import NotFound
from cotune.placement.answers import PlacementGoal, answer
from cotune.placement.methods import Assignments, features
from cotune.placement.problems import Placement, in_words
from cotune.placement.profiles import Profile
from cotune.placement.provisioning import Provisioning
from cotune.placement.staged import TRAIN, Engines, Staged, Tell, completed
from cotune.types import Floats, Ints, Stage

TOLERANCE = 0.05  # by which a run may fall short of the throughput asked for: its noise, not the plan's fault


@dataclass(frozen=True, slots=True)
class MeasuredPlan:
    """A plan, and what running it gave: examples per second, and the cost of a million at that rate."""

    plan: Placement
    throughput: float
    cost_per_million: float


@dataclass
class Episodes:
    """Runs plans of a profile for so many batches each, and remembers what they gave."""

    profile: Profile
    asked: PlacementGoal
    run: Callable[[Placement], float]  # a plan -> examples per second
    counts: Provisioning = "exact"
    known: dict[tuple[Stage, ...], MeasuredPlan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.problem,) = self.asked.problems(self.profile)
        self.assignments = Assignments(self.problem, self.counts)

    def measured(self, plan: Placement) -> MeasuredPlan:
        """Return what a plan gives when it runs."""
        if plan.stages not in self.known:
            rate = self.run(plan)
            self.known[plan.stages] = MeasuredPlan(plan, rate, 1e6 / rate * plan.price)
        return self.known[plan.stages]

    def rank(self, points: Ints) -> Floats:
        """Return the measured costs of some assignments, infinite where they are too slow or cannot be had."""
        return np.array([[self._cost(tuple(int(kind) for kind in point))] for point in points])

    def _cost(self, assignment: tuple[int, ...]) -> float:
        plan = self.assignments.plan(assignment)
        if plan is None:
            return np.inf
        found = self.measured(plan)
        return found.cost_per_million if found.throughput >= (1 - TOLERANCE) * self.asked.throughput else np.inf


@dataclass(frozen=True, slots=True)
class Refined:
    """The plans of each method as they ran, and in how many real runs the policy learnt."""

    exact: MeasuredPlan
    first_phase: MeasuredPlan | None
    second_phase: MeasuredPlan | None
    runs: int


def refined(episodes: Episodes, count: int, rng: random.Random, policy: str = "reinforce") -> Refined:
    """Return what HeterPS's two phases come to, beside the exact plan."""
    known = episodes.assignments
    search = replace(registry.create("search", policy), features=features(episodes.profile, episodes.problem))
    seed = rng.getrandbits(32)
    by_model = known.search(replace(search, answer="probable"), random.Random(seed))
    point = search.refine(known.space, known.rank, episodes.rank, count, random.Random(seed))
    runs = len(episodes.known)
    by_runs = known.plan(point)
    return Refined(
        episodes.measured(answer(episodes.profile, episodes.asked).plan),
        None if by_model is None else episodes.measured(by_model),
        None if by_runs is None else episodes.measured(by_runs),
        runs,
    )


def pipelines(there: Engines, profile: Profile, batches: int, folder: Path, tell: Tell) -> Callable[[Placement], float]:
    """Return a function that runs a plan of a profile as a pipeline of real processes."""
    types = {entry.name: entry for entry in profile.types}
    if not profile.name:
        raise NotFound("the profile names no network, so none can be run: write it by `cotune pipeline profile`")

    def run(plan: Placement) -> float:
        staged = Staged(plan.stages, types)
        flags = ("--model", profile.name, "--batch-size", str(int(plan.batch)), "--batches", str(batches))
        number = len(list(folder.glob("episode-*")))
        result = completed(there, staged, (*TRAIN, *flags), folder / f"episode-{number}")
        rate = float(result["examples_per_second"])
        tell(f"{in_words(plan.stages)}: {rate:,.0f} examples/s, {plan.throughput:,.0f} by the model")
        return rate

    return run
