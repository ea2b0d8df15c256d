"""How well each strategy plans, judged on measured truth.

    planned = share of the goals that get a plan     some config meets every goal: it lies on the frontier
    met     = share of these plans that meet it      as the truth says, beside the mean P(met) that they promised
    cost    = cost / the oracle's cost               of the plans that meet it

and the cost again with measuring added: what was spent on it, less what trained the chosen recipe and is continued by
the run. Probes see other repeats and seeds than the truth where there are several. `joint` refuses a goal where
`cotune plan` does (exit 5, at the default confidence): what is judged is what users get.

A row also has one figure for both, for choosing constants:

    score = cost / oracle's cost           when the goal is met
          = 2 + spent / oracle's cost      when it is not; a goal that is refused spends nothing

A job that was `seen` before brings the samples of earlier goals: those of a recording are
asked one after another, in a random order, and each finds what was measured and run for
those before it. What that cost was paid then; only what is measured anew counts. The first
goal of each recording is left out.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotune import registry
from cotune.lab.bench.lab import Profiles, RecordedLab
from cotune.lab.bench.tasks import Figures, figure, grouped, usable, worked_off
from cotune.lab.bench.truth import FEWEST_BEST, halves_of
from cotune.lab.strategy import Decision, Strategy, decision_of
from cotune.types import Goal, Sample


@dataclass(frozen=True, slots=True)
class PlanningRow:
    """One goal as one strategy answered it."""

    recording: str
    target: float
    deadline: float
    strategy: str
    workers: int | None
    batch_size: int | None
    epochs: int
    met: bool
    probability: float | None  # P(met) of the plan; None where the goal is refused or the strategy forecasts none
    cost: float
    oracle_cost: float
    score: float
    profile_samples: int
    profile_cost: float
    reused_cost: float
    score_with_profile: float
    unit: str


@dataclass(frozen=True, slots=True)
class PlanningTask:
    """All strategies on some goals of one recording: what two of them would both measure is measured once."""

    folder: Path
    goals: tuple[Goal, ...]
    strategies: tuple[str, ...]
    max_samples: int
    seed: int
    seen: bool = False

    @property
    def size(self) -> int:
        """Return roughly how much work it is."""
        return len(self.goals) * len(halves_of(self.folder)[1].space)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What was judged, and what was left out and why."""

    rows: tuple[PlanningRow, ...]
    left_out: list[Figures]


def bench_planning(
    folders: Sequence[Path],
    strategies: Sequence[str],
    *,
    max_samples: int = 16,
    seed: int = 0,
    seen: bool = False,
    every: int = 1,
    processes: int = 2,
) -> Benchmark:
    """Return every goal (or each n-th) as answered by every strategy, for jobs never seen or `seen` before."""
    for strategy in strategies:
        registry.create("strategy", strategy)  # a wrong name is reported before any work is done
    chosen, left_out = useful(folders)
    tasks = [
        PlanningTask(folder, tuple(goals), tuple(strategies), max_samples, seed)
        for folder in chosen
        for _, goals in itertools.groupby(halves_of(folder)[1].goals()[::every], key=lambda goal: goal.target)
    ]
    if seen:
        tasks = [
            PlanningTask(folder, _shuffled(folder, seed)[::every], (strategy,), max_samples, seed, seen=True)
            for folder in chosen
            for strategy in strategies
        ]
    # The longest first, so that no process is left with them at the end.
    tasks.sort(key=lambda task: -task.size)
    order = {halves_of(folder)[0].name: place for place, folder in enumerate(chosen)}
    places = {strategy: place for place, strategy in enumerate(strategies)}
    rows = [row for rows in worked_off(_answer, tasks, processes) for row in rows]
    rows.sort(key=lambda row: (order[row.recording], places[row.strategy], row.target, row.deadline))
    return Benchmark(tuple(rows), left_out)


def planning_summaries(rows: Iterable[PlanningRow]) -> list[Figures]:
    """Return the summary of each strategy, those that meet the most goals first, then the cheapest with measuring."""
    found = [_summary(strategy, own) for strategy, own in grouped(rows, lambda row: row.strategy).items()]
    return sorted(found, key=lambda one: (-one["planned"] * (one["met"] or 0.0), one["mean_with_profile"] or np.inf))


def _summary(strategy: str, rows: Sequence[PlanningRow]) -> Figures:
    """Return the figures of one strategy; None where no goal was planned or met, or no P(met) is forecast."""
    planned = [row for row in rows if row.workers is not None]
    met = [row for row in planned if row.met]  # without a penalty the score is the cost over the best
    return {
        "strategy": strategy,
        "goals": len(rows),
        "planned": len(planned) / len(rows),
        "met": figure(np.mean, "met", planned),
        "probability": figure(np.mean, "probability", planned),
        "median": figure(np.median, "score", met),
        "mean": figure(np.mean, "score", met),
        "median_with_profile": figure(np.median, "score_with_profile", met),
        "mean_with_profile": figure(np.mean, "score_with_profile", met),
        "profile_samples": figure(np.mean, "profile_samples", rows),
    }


def useful(folders: Iterable[Path]) -> tuple[list[Path], list[Figures]]:
    """Return the recordings with goals of different best configs, and the others with the reason."""
    return usable(folders, _why_not)


def _why_not(folder: Path) -> str | None:
    truth = halves_of(folder)[1]
    different = len({truth.best(goal) for goal in truth.goals()}) if len(truth.space) else 0
    return None if different >= FEWEST_BEST else f"{different} different best configs, fewer than {FEWEST_BEST}"


def _answer(task: PlanningTask) -> list[PlanningRow]:
    if task.seen:
        return [row for strategy in task.strategies for row in _in_turn(task, strategy)]
    rows = []
    for goal in task.goals:
        profiles: Profiles = {}
        rows += [judged(goal, strategy, _lab(task, goal, profiles))[0] for strategy in task.strategies]
    return rows


def _in_turn(task: PlanningTask, strategy: str) -> list[PlanningRow]:
    """Return the goals after the first, each answered with what was measured and run for those before it."""
    known: tuple[Sample, ...] = ()
    rows = []
    for goal in task.goals:
        lab = _lab(task, goal, {}, known)
        row, decision = judged(goal, strategy, lab)
        rows.append(row)
        if decision.config is not None:
            lab.train(decision.config, decision.epochs)
        known = (*known, *lab.samples)
    return rows[1:]


def _lab(task: PlanningTask, goal: Goal, profiles: Profiles, known: tuple[Sample, ...] = ()) -> RecordedLab:
    shown, truth = halves_of(task.folder)
    return RecordedLab(shown, truth, goal, task.max_samples, _seed(task), profiles, known)


def _shuffled(folder: Path, seed: int) -> tuple[Goal, ...]:
    goals = halves_of(folder)[1].goals()
    random.Random(seed).shuffle(goals)
    return tuple(goals)


def judged(goal: Goal, strategy: str, lab: RecordedLab) -> tuple[PlanningRow, Decision]:
    """Return what a strategy decides for a goal in a lab, held against the truth."""
    truth = lab.truth
    chosen: Strategy = registry.create("strategy", strategy)
    decision = decision_of(chosen, lab)
    oracle = truth.least_cost(goal)
    outcome = truth.outcome(decision.config, decision.epochs, goal) if decision.config else None
    cost = outcome.cost if outcome else 0.0
    met = outcome is not None and outcome.met
    extra = 0.0 if met else 2.0
    spent, reused = lab.spent(), min(lab.reused(decision), cost)
    row = PlanningRow(
        recording=lab.seen.name,
        target=goal.target or 0.0,
        deadline=goal.deadline or 0.0,
        strategy=strategy,
        workers=decision.config.workers if decision.config else None,
        batch_size=decision.config.batch_size if decision.config else None,
        epochs=decision.epochs,
        met=met,
        probability=decision.probability,
        cost=cost,
        oracle_cost=oracle,
        score=extra + cost / oracle,
        profile_samples=len(lab.samples),
        profile_cost=spent,
        reused_cost=reused,
        score_with_profile=extra + (cost + spent - reused) / oracle,
        unit=lab.seen.cluster.unit,
    )
    return row, decision


def _seed(task: PlanningTask) -> int:
    """Return a seed that is the recording's own, and the same for all goals and strategies."""
    text = f"{task.seed} {task.folder.name}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
