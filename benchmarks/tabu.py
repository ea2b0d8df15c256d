"""Tabu beside grid: share of optimal plans and cost gap over 20 seeds, at several numbers of rounds.

    python benchmarks/tabu.py RECORDING...

Up to eight goals of each recording, from easy to hard, are planned from the samples of the product's own profile. A
goal that the grid finds no plan for has nothing to compare and is counted.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotune.errors import Infeasible
from cotune.forecast import Forecaster
from cotune.lab.bench.lab import RecordedLab
from cotune.lab.bench.truth import Truth
from cotune.lab.searches.tabu import Tabu
from cotune.plan.choose import choose
from cotune.plan.searches.grid import Grid
from cotune.recording import read
from cotune.types import Goal

SEEDS = 20
ROUNDS = (50, 200, 1000, 5000)
MOST_GOALS = 8


@dataclass(frozen=True)
class Compared:
    """Tabu's cost over the grid's, less one, for every goal that can be planned and every seed, by rounds."""

    name: str
    configs: int
    asked: int
    planned: int
    gaps: dict[int, list[float]]


def compare(folder: Path, rounds: tuple[int, ...] = ROUNDS, seeds: int = SEEDS) -> Compared:
    """Return how far Tabu's plans are from the best ones of the same forecasts."""
    seen, judge = read(folder).halves()
    truth = Truth(judge)
    goals = spread(truth.goals())
    gaps: dict[int, list[float]] = {count: [] for count in rounds}
    planned = 0
    for goal in goals:
        lab = RecordedLab(seen, truth, goal)
        forecast = lab.forecaster(lab.profile(lab.space))
        best = cost(lab, forecast, Grid(), 0)
        if np.isinf(best):
            continue
        planned += 1
        for count in rounds:
            gaps[count] += [cost(lab, forecast, Tabu(rounds=count), seed) / best - 1 for seed in range(seeds)]
    return Compared(seen.name, len(truth.space), len(goals), planned, gaps)


def spread(goals: list[Goal]) -> list[Goal]:
    """Return at most so many of some goals, evenly from the first to the last."""
    places = np.unique(np.linspace(0, len(goals) - 1, min(MOST_GOALS, len(goals))).round().astype(int))
    return [goals[place] for place in places]


def cost(lab: RecordedLab, forecast: Forecaster, search: Grid | Tabu, seed: int) -> float:
    """Return the forecast cost of the plan that a search finds; infinite where it finds none."""
    try:
        plan = choose(lab.job, lab.goal, lab.space, lab.cluster, forecast=forecast, search=search, seed=seed)
    except Infeasible:
        return float("inf")
    return plan.forecast.cost.mid


def lines(found: Compared) -> Iterator[str]:
    """Yield one line per number of rounds, or the one that says why there is none."""
    head = f"{found.name}, {found.configs} configs, {found.planned} of {found.asked} goals planned"
    if not found.planned:
        yield f"{head}: nothing to compare"
        return
    for rounds, gaps in found.gaps.items():
        share = sum(gap <= 1e-9 for gap in gaps) / len(gaps)
        yield f"{head}, {rounds} rounds: optimal {share:.0%}, gap {statistics.median(gaps):.1%}"


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(*lines(compare(Path(given))), sep="\n", flush=True)
