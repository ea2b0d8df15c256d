"""Every way to place layers gives a valid plan, and none is cheaper than the exact one."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from cotune import registry
from cotune.errors import NotFound, UsageError
from cotune.lab.searches.reinforce import Reinforce
from cotune.placement.methods import method_of
from cotune.placement.placements.exact import Exact
from cotune.placement.placements.rules import BruteForce
from cotune.placement.problems import Problem
from cotune.placement.profiles import Profile, parse
from cotune.placement.provisioning import provide, runs_of
from cotune.placement.testing import check, ctr
from cotune.space import Axis, Space
from cotune.types import Floats, Ints

QUICK = {"reinforce": "reinforce(rounds=10, pretrain=3)", "bayesian": "bayesian(rounds=30)", "tabu": "tabu(rounds=100)"}


def problem_of(seed: int, depth: int = 6, types: int = 2) -> tuple[Profile, Problem]:
    rng = random.Random(seed)
    profile = parse(ctr(rng, depth, types))
    return profile, Problem.of(profile, 4096 / rng.uniform(0.1, 0.5))


@pytest.mark.parametrize("name", registry.names("search"))
def test_every_search_is_valid_repeatable_and_never_cheaper_than_exact(name: str) -> None:
    for seed in range(3):
        profile, problem = problem_of(seed)
        best = Exact().solve(problem).placement
        assert best is not None
        plans = [method_of(QUICK.get(name, name), profile, problem).place(problem, random.Random(7)) for _ in range(2)]
        assert plans[0] == plans[1]
        if plans[0] is not None:
            check(plans[0], problem)
            assert plans[0].cost_per_million >= best.cost_per_million * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_exact_equals_brute_force_on_ctr_networks(seed: int) -> None:
    _, problem = problem_of(seed, depth=7 if seed % 2 else 5, types=2 if seed % 2 else 3)
    best, forced = Exact().solve(problem).placement, BruteForce().place(problem, random.Random(0))
    assert (best is None) == (forced is None)
    if best is not None and forced is not None:
        assert best.cost_per_million == pytest.approx(forced.cost_per_million, rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_balanced_counts_are_never_cheaper_than_exact_counts(seed: int) -> None:
    _, problem = problem_of(seed)
    rng = random.Random(seed)
    for _ in range(20):
        edges = runs_of([rng.randrange(2) for _ in range(problem.depth)])
        exact, balanced = provide(problem, edges), provide(problem, edges, "balanced")
        assert (exact is None) == (balanced is None)
        if exact is not None and balanced is not None:
            assert exact.cost_per_million <= balanced.cost_per_million * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_free_cuts_never_cost_more_and_overlap_never_does(seed: int) -> None:
    profile, problem = problem_of(seed)
    changes: list[dict[str, bool]] = [{"free": True}, {}, {"overlap": False}]
    plans = [Exact().solve(Problem.of(profile, problem.throughput, **change)).placement for change in changes]
    costs = [math.inf if plan is None else plan.cost_per_million for plan in plans]
    assert costs[0] <= costs[1] * (1 + 1e-9)
    assert costs[1] <= costs[2] * (1 + 1e-9)


def test_brute_force_refuses_what_would_take_hours() -> None:
    _, problem = problem_of(0, depth=16, types=4)
    with pytest.raises(UsageError, match=r"4,294,967,296 assignments"):
        BruteForce().place(problem, random.Random(0))


def test_an_unknown_method_is_explained() -> None:
    profile, problem = problem_of(0)
    with pytest.raises(NotFound, match="did you mean 'genetic'"):
        method_of("genetics", profile, problem)


def test_the_cell_and_temperature_of_the_policy_are_settings() -> None:
    profile, problem = problem_of(1)
    text = "reinforce(rounds=5, cell=rnn, temperature=2.0, answer=probable)"
    plan = method_of(text, profile, problem).place(problem, random.Random(0))
    assert plan is None or np.isfinite(plan.cost_per_million)


def test_reinforce_ends_once_it_always_draws_the_same_plan() -> None:
    space = Space((Axis("only", ("one",)), Axis("two", ("a", "b"))))
    asked: list[int] = []

    def rank(points: Ints) -> Floats:
        asked.append(len(points))
        return points[:, 1:].astype(np.float64)

    assert Reinforce(rate=0.1).search(space, rank, random.Random(0)) == (0, 0)
    assert len(asked) < 120, "of 220 rounds"
