"""Is P(met) what it says? Probes see one seed of a recording, and the others judge.

For every goal and every confidence asked for, a job that was never seen is profiled and planned on one run of
each recipe. The plan is then held against every other run of its config:

    met = share of the other runs that reach the target within the plan's epochs and the deadline

Goals are those of the planning benchmark, made from the runs that judge: a deadline is 1.25 x the time of the run
that at least half of them equal or beat. A goal that no config meets with the confidence asked for is refused, and
counted separately. Every goal weighs the same.

Plans are chosen: of all configs that are sure enough the cheapest, which is mostly surer than was asked. Whether P(met)
itself is true is shown by all configs of the space, those with similar predictions in one row (`told_summaries`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from cotune.errors import Infeasible
from cotune.lab.bench.lab import RecordedLab
from cotune.lab.bench.tasks import Figures, figure, grouped, usable, worked_off
from cotune.lab.bench.truth import Truth, recording_of
from cotune.plan.assess import Assessment, assess
from cotune.plan.choose import decide
from cotune.plan.searches.grid import Grid
from cotune.recording import Recording
from cotune.types import Goal, Plan

CONFIDENCES = (0.5, 0.8, 0.9, 0.95)
FEWEST_SEEDS = 3
TOLD = (0.0, 0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 1.0)  # borders of the predictions for all configs
MOST_SHOWN = 3  # seeds that are shown in turn: where a recording holds many, more take time and show the same


@dataclass(frozen=True, slots=True)
class SeedRow:
    """One goal, planned with one seed in view and one confidence asked for, and what the other seeds say."""

    recording: str
    seed: int
    target: float
    deadline: float
    confidence: float
    refused: bool
    workers: int | None
    batch_size: int | None
    epochs: int
    probability: float  # as predicted
    met: float  # share of the runs that judge


@dataclass(frozen=True, slots=True)
class ToldRow:
    """Configs with similar predictions for one goal after one profile, planned for or not."""

    recording: str
    low: float
    high: float
    configs: int
    probability: float  # mean of the predictions
    met: float  # mean share of the runs that judge


@dataclass(frozen=True, slots=True)
class SeedBenchmark:
    """What was judged, and what was left out and why."""

    rows: tuple[SeedRow, ...]
    told: tuple[ToldRow, ...]
    left_out: list[Figures]


@dataclass(frozen=True, slots=True)
class _SeedTask:
    folder: Path
    seed: int
    goals: tuple[Goal, ...]
    confidences: tuple[float, ...]
    max_samples: int
    chance: int


def bench_other_seeds(
    folders: Sequence[Path],
    *,
    confidences: Sequence[float] = CONFIDENCES,
    max_samples: int = 16,
    seed: int = 0,
    every: int = 1,
    processes: int = 2,
) -> SeedBenchmark:
    """Return every goal (or each n-th) of every recording with enough seeds, one seed shown at a time."""
    tasks: list[_SeedTask] = []
    kept, left_out = usable(folders, _why_not)
    for folder in kept:
        for shown in range(min(recording_of(folder).fewest_seeds, MOST_SHOWN)):
            goals = _apart(folder, shown)[1].goals()[::every]
            for _, some in itertools.groupby(goals, key=lambda goal: goal.target):
                tasks.append(_SeedTask(folder, shown, tuple(some), tuple(confidences), max_samples, seed))
    answered = list(worked_off(_answer, tasks, processes))
    rows = tuple(row for rows, _ in answered for row in rows)
    told = tuple(row for _, rows in answered for row in rows)
    return SeedBenchmark(rows, told, left_out)


def seed_summaries(rows: Iterable[SeedRow]) -> list[Figures]:
    """Return one summary for each confidence that was asked for."""
    groups = grouped(rows, lambda row: row.confidence)
    return [_summary(confidence, own) for confidence, own in sorted(groups.items())]


def _summary(confidence: float, rows: Sequence[SeedRow]) -> Figures:
    planned = [row for row in rows if not row.refused]
    return {
        "confidence": confidence,
        "goals": len(rows),
        "refused": len(rows) - len(planned),
        "probability": figure(np.mean, "probability", planned),
        "met": figure(np.mean, "met", planned),
    }


def told_summaries(rows: Iterable[ToldRow]) -> list[Figures]:
    """Return one summary for each range of predictions; every profile weighs the same."""
    return [
        {
            "low": low,
            "high": high,
            "profiles": len(own),
            "configs": sum(row.configs for row in own),
            "probability": figure(np.mean, "probability", own),
            "met": figure(np.mean, "met", own),
        }
        for (low, high), own in sorted(grouped(rows, lambda row: (row.low, row.high)).items())
    ]


def _why_not(folder: Path) -> str | None:
    """Return why a recording cannot be judged by other seeds, if it cannot."""
    seeds = recording_of(folder).fewest_seeds
    if seeds < FEWEST_SEEDS:
        return f"{seeds} seeds, fewer than {FEWEST_SEEDS}"
    return None if len(_apart(folder, 0)[1].space) > 1 else "fewer than two configs to choose among"


@cache
def _apart(folder: Path, seed: int) -> tuple[Recording, Truth]:
    shown, others = recording_of(folder).apart(seed)
    return shown, Truth(others)


def _answer(task: _SeedTask) -> tuple[list[SeedRow], list[ToldRow]]:
    shown, truth = _apart(task.folder, task.seed)
    rows: list[SeedRow] = []
    told: list[ToldRow] = []
    for goal, confidence in itertools.product(task.goals, task.confidences):
        lab = RecordedLab(shown, truth, replace(goal, confidence=confidence), task.max_samples, task.chance)
        forecast = lab.forecaster(lab.profile(lab.space))
        outlook = forecast(truth.configs, goal.max_epochs)
        found = assess(outlook, lab.goal, lab.cluster, lab.job.sign, lab.trained(truth.configs))
        rows.append(_judged(lab, task.seed, _plan(lab, found)))
        told += _told(lab, found)
    return rows, told


def _plan(lab: RecordedLab, found: Assessment) -> Plan | None:
    """Return the plan, or None where nothing meets the goal with the confidence asked for."""
    try:
        return decide(lab.job, lab.space, found, search=Grid(), seed=lab.seed)
    except Infeasible:
        return None


def _told(lab: RecordedLab, found: Assessment) -> Iterator[ToldRow]:
    """Yield what the runs that judge say of all configs, those with similar predictions together."""
    caps = zip(found.outlook.configs, found.epochs.tolist(), strict=True)
    met = np.array([lab.truth.share_met(config, cap, lab.goal) for config, cap in caps])
    place = np.clip(np.searchsorted(TOLD, found.probability, side="right"), 1, len(TOLD) - 1)
    for part in np.unique(place).tolist():
        own = place == part
        yield ToldRow(
            recording=lab.seen.name,
            low=TOLD[part - 1],
            high=TOLD[part],
            configs=int(own.sum()),
            probability=float(found.probability[own].mean()),
            met=float(met[own].mean()),
        )


def _judged(lab: RecordedLab, seed: int, plan: Plan | None) -> SeedRow:
    return SeedRow(
        recording=lab.seen.name,
        seed=seed,
        target=lab.goal.target or 0.0,
        deadline=lab.goal.deadline or 0.0,
        confidence=lab.goal.confidence,
        refused=plan is None,
        workers=plan.config.workers if plan else None,
        batch_size=plan.config.batch_size if plan else None,
        epochs=plan.epochs if plan else 0,
        probability=plan.forecast.probability if plan else 0.0,
        met=lab.truth.share_met(plan.config, plan.epochs, lab.goal) if plan else 0.0,
    )
