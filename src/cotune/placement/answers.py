"""From a profile and a throughput to an answer: the plan, its proof, and its neighbours.

    next faster     the cheapest plan that is faster than the chosen one
    next cheaper    the fastest plan that costs less than the chosen one (and is too slow)

Where the profile tells what part of its seconds does not grow with the batch, several
batches are solved, each with the best plan so far as the one to beat: the result is the
optimum over batches and placements together.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from cotune.errors import Infeasible, UsageError
from cotune.placement.placements.exact import Exact, ProvenPlacement
from cotune.placement.placements.rules import BruteForce
from cotune.placement.problems import TIE, Cheapest, Fastest, Objective, Placement, Problem, in_words
from cotune.placement.profiles import Profile
from cotune.placement.provisioning import provide
from cotune.units import number

_ASIDE_SECONDS = 2.0  # for each question beside the one asked
_NEAREST = 3
_CLOSE = 1.01
_TRIED = 5_000  # assignments, in about a second


@dataclass(frozen=True, slots=True)
class PlacementGoal:
    """What is asked of a placement."""

    throughput: float
    prefer: Literal["cheap", "fast"] = "cheap"
    overlap: bool = True
    free: bool = False
    batches: tuple[float, ...] = ()
    time_limit: float = 10.0

    def problems(self, profile: Profile) -> tuple[Problem, ...]:
        """Return the problem for each batch that may be chosen."""
        if self.batches and profile.stage_seconds is not None:
            raise UsageError(f"a table of stages holds for its own batch of {profile.batch:g} only", remedy="one_batch")
        return tuple(
            Problem.of(profile, self.throughput, overlap=self.overlap, free=self.free, batch=batch)
            for batch in self.batches or (profile.batch,)
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The plan with its proof; `bound` is the least cost per million, or the most throughput if fast was asked."""

    plan: Placement
    optimal: bool
    bound: float
    next_cheaper: Placement | None
    next_faster: Placement | None
    searched: int
    seconds: float


def answer(profile: Profile, asked: PlacementGoal) -> Answer:
    """Return the best plan, or raise Infeasible with the nearest ones."""
    problems = asked.problems(profile)
    if asked.prefer == "fast" and (endless := _unlimited(problems[0])):
        raise UsageError(
            f"the fastest plan needs a limit for every type, and {endless} has none: more is always faster"
        )
    objective: Objective = Fastest() if asked.prefer == "fast" else Cheapest()
    best = _solve(problems, objective, asked.time_limit)
    if best.placement is None:
        raise _infeasible(profile, asked, proven=best.optimal)
    scale = best.bound if best.bound > 0 else np.inf
    return Answer(
        plan=best.placement,
        optimal=best.optimal,
        bound=1 / scale if asked.prefer == "fast" else best.bound * 1e6,
        next_cheaper=_next_cheaper(problems, best.placement),
        next_faster=_next_faster(problems, best.placement),
        searched=best.searched,
        seconds=best.seconds,
    )


def balanced(profile: Profile, asked: PlacementGoal, best: Answer) -> Answer:
    """Return the cheapest plan with the counts of HeterPS: each stage has the fewest units that are fast enough.

    Few assignments are all tried; of many, the stages of the exact answer are taken, and its cost is the bound.
    """
    problem = next(problem for problem in asked.problems(profile) if problem.batch == best.plan.batch)
    if len(problem.types) ** problem.depth <= _TRIED and not problem.free:
        tried = BruteForce(counts="balanced").place(problem, random.Random(0))
        assert tried is not None  # some plan reaches the throughput, and these counts are the fewest that do
        return replace(best, plan=tried, optimal=True, bound=tried.cost_per_million)
    edges = [(problem.types.index(stage.device), stage.first, stage.last) for stage in best.plan.stages]
    plan = provide(problem, edges, "balanced")
    assert plan is not None  # fewer units than the exact plan has, so within the limits
    return replace(best, plan=plan, optimal=best.optimal and plan.cost_per_million <= best.bound * (1 + TIE))


def _solve(problems: tuple[Problem, ...], objective: Objective, seconds: float) -> ProvenPlacement:
    """Return the best over all problems; the bound is the least of theirs."""
    total: ProvenPlacement | None = None
    for place, problem in enumerate(problems):
        share = max(0.0, seconds - (total.seconds if total else 0.0)) / (len(problems) - place)
        known = total.placement if total else None
        own = Exact(time_limit=share).solve(problem, objective, incumbent=known)
        total = own if total is None else _both(total, own)
    assert total is not None
    value = np.inf if total.placement is None else objective.value(total.placement)
    return replace(total, optimal=total.bound >= value * (1 - TIE))


def _both(one: ProvenPlacement, other: ProvenPlacement) -> ProvenPlacement:
    return ProvenPlacement(
        placement=other.placement,  # at least as good: it started from the first one's
        optimal=one.optimal and other.optimal,
        bound=min(one.bound, other.bound),
        searched=one.searched + other.searched,
        seconds=one.seconds + other.seconds,
    )


def _unlimited(problem: Problem) -> str | None:
    endless = np.flatnonzero(np.isinf(problem.limits))
    return problem.types[int(endless[0])] if len(endless) else None


def _next_cheaper(problems: tuple[Problem, ...], plan: Placement) -> Placement | None:
    slower = tuple(replace(problem, throughput=0.0) for problem in problems)
    return _solve(slower, Fastest(below=plan.cost_per_million / 1e6), _ASIDE_SECONDS).placement


def _next_faster(problems: tuple[Problem, ...], plan: Placement) -> Placement | None:
    faster = tuple(replace(problem, throughput=plan.throughput * (1 + TIE)) for problem in problems)
    return _solve(faster, Cheapest(), _ASIDE_SECONDS).placement


def _infeasible(profile: Profile, asked: PlacementGoal, *, proven: bool) -> Infeasible:
    """Return the error that names what stands in the way, by how much, and up to three plans near it."""
    said = f"no plan reaches {number(asked.throughput)} examples/s"
    homeless = [layer.name for layer in profile.layers if layer.compute and all(one is None for one in layer.compute)]
    if homeless:
        return Infeasible(f"layer {homeless[0]!r} fits no type: its compute is null everywhere", "memory or types")
    if not proven:
        said = f"found no plan that reaches {number(asked.throughput)} examples/s within {asked.time_limit:g} s"
    slow = replace(asked, throughput=0.0)
    problems = slow.problems(profile)
    fastest = _fastest(problems, asked.throughput)
    if fastest is None:
        return Infeasible("no plan covers all layers: some layer fits no type that has units left", "memory or types")
    nearest = [fastest]
    missing = asked.throughput - fastest.throughput
    quick = "the fastest" if _unlimited(problems[0]) is None else "one of the fastest"
    said += f"; {quick} takes {in_words(fastest.stages, ' + ')}: {number(fastest.throughput)} examples/s, "
    said += f"{missing / asked.throughput:.1%} less"
    lifted = profile.model_copy(update={"types": [one.model_copy(update={"limit": None}) for one in profile.types]})
    wished = _solve(asked.problems(lifted), Cheapest(), _ASIDE_SECONDS).placement
    if wished is not None:
        said += f"; with more units {in_words(wished.stages, ' + ')} would do"
        nearest.append(wished)
    if not asked.free and (
        split := _solve(replace(asked, free=True).problems(profile), Cheapest(), _ASIDE_SECONDS).placement
    ):
        said += f"; with cuts anywhere {in_words(split.stages, ' + ')} would do"
        nearest.append(split)
    constraint = "limit" if wished is not None else "throughput"
    ask = "Ask for less" if wished is None else "Ask for less, or raise the limits"
    slower = fastest
    while len(nearest) < _NEAREST and (cheaper := _next_cheaper(problems, slower)) is not None:
        slower = cheaper
        nearest.append(slower)
    return Infeasible(f"{said}. {ask}.", constraint, nearest, missing, "examples/s")


def _fastest(problems: tuple[Problem, ...], throughput: float) -> Placement | None:
    """Return the fastest plan; where more units are always faster, one within a hundredth of what they can reach.

    The throughput asked for is out of reach.
    """
    if _unlimited(problems[0]) is None:
        return _solve(problems, Fastest(), _ASIDE_SECONDS).placement
    best = _solve(problems, Cheapest(), _ASIDE_SECONDS).placement
    beyond = throughput
    while best is not None and beyond > best.throughput * _CLOSE:
        between = float(np.sqrt(beyond * best.throughput))
        wanted = tuple(replace(problem, throughput=between) for problem in problems)
        found = _solve(wanted, Cheapest(), _ASIDE_SECONDS).placement
        best, beyond = (best, between) if found is None else (found, beyond)
    return best
