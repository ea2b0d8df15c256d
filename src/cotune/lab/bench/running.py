"""Measuring and training together, inside the deadline: a new job, no profile, everything paid from one account.

Goals are those of the planning benchmark, their deadlines a multiple (`slack`) of the frontier's time. Every method
starts with nothing and has the deadline for measuring and training together:

    self       starts at once, tunes while it trains (`probe.self_measuring`)
    profile    `profile`, then `plan` for the time that is left, then the run, which resumes its probe;
               a probe that meets the target itself ends it
    pollux     the same with the config of the highest goodput
    optuna     three trials of TPE, a quarter of the deadline each; the best of them continues
    asha       nine configs, one epoch; the best third continues for three, then the best, to the end
    manual     one config that somebody picks, to the end

Spent is everything, over what the static oracle pays: the cheapest config that meets the goal, known beforehand, with
no measuring at all. Time probes see other repeats than the training where there are several. A job `seen` before
brings what the runs for its earlier goals measured; the first goal of each recording is left out.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cotune import registry
from cotune.display import Progress
from cotune.errors import UsageError
from cotune.lab.bench.lab import RecordedLab, cost_of
from cotune.lab.bench.tasks import Figures, figure, grouped, usable, worked_off
from cotune.lab.bench.trials import Account, asha, manual, optuna
from cotune.lab.bench.truth import SLACK, Truth, halves_of
from cotune.lab.strategy import Strategy
from cotune.plan.rates import rates
from cotune.probe.self_measuring_constants import SELF_MEASURING, SelfMeasuringConstants
from cotune.project.project import Project
from cotune.project.run import RunOptions, measuring_itself
from cotune.recording import Recording
from cotune.recording.replayed import ReplayedJob
from cotune.run.engines.recorded import Recorded
from cotune.space import Configs
from cotune.types import Goal, Sample

SLACKS = (2.0, 1.25)
MISSED = 2.0  # least costs that a missed goal counts on top of what it spent


@dataclass(frozen=True, slots=True)
class RunningRow:
    """One goal as one method came out."""

    recording: str
    target: float
    deadline: float
    slack: float
    method: str
    met: bool
    seconds: float
    spent: float
    measuring: float
    moves: int
    oracle: float
    unit: str
    told: float | None  # P(met) at the beginning, by a method that predicts it
    ratio: float  # everything spent over what the static oracle pays


@dataclass(frozen=True, slots=True)
class _RunningTask:
    folder: Path
    slack: float
    methods: tuple[str, ...]
    every: int
    seed: int
    seen: bool


def bench_running(
    folders: Sequence[Path],
    methods: Sequence[str] = (),
    *,
    slacks: Sequence[float] = SLACKS,
    every: int = 1,
    seen: bool = False,
    seed: int = 0,
    processes: int = 2,
) -> tuple[list[RunningRow], list[Figures]]:
    """Return every goal (or each n-th) as every method came out, and the recordings that were left out and why."""
    chosen = tuple(methods) or tuple(METHODS)
    if strange := sorted(set(chosen) - set(METHODS)):
        raise UsageError(f"no method {strange[0]!r}; there are {', '.join(METHODS)}")
    kept, left_out = usable(folders, lambda folder: None if halves_of(folder)[1].goals() else "no goals")
    tasks = [
        _RunningTask(folder, slack, ("self",) if seen else chosen, every, seed, seen)
        for folder, slack in itertools.product(kept, slacks)
    ]
    return [row for rows in worked_off(_answer, tasks, processes) for row in rows], left_out


def running_summaries(rows: Iterable[RunningRow]) -> list[Figures]:
    """Return one summary for each slack and method, the largest slack first."""
    order = list(METHODS)
    listed = sorted(rows, key=lambda row: (-row.slack, order.index(row.method)))
    return [_summary(*group, own) for group, own in grouped(listed, lambda row: (row.slack, row.method)).items()]


def _summary(slack: float, method: str, rows: Sequence[RunningRow]) -> Figures:
    scores = [row.ratio if row.met else row.ratio + MISSED for row in rows]
    return {
        "slack": slack,
        "method": method,
        "goals": len(rows),
        "met": figure(np.mean, "met", rows),
        "median": figure(np.median, "ratio", rows),
        "mean": figure(np.mean, "ratio", rows),
        "median_score": float(np.median(scores)),
        "mean_score": float(np.mean(scores)),
        "moves": figure(np.mean, "moves", rows),
        "told": figure(np.mean, "told", rows),
    }


def _answer(task: _RunningTask) -> list[RunningRow]:
    probed, truth = halves_of(task.folder)
    goals = [replace(goal, deadline=(goal.deadline or 0.0) * task.slack / SLACK) for goal in truth.goals()]
    if task.seen:
        return _in_turn(task, goals)
    return [
        _row(task, truth, goal, method, METHODS[method](probed, truth, goal, task.seed))
        for goal in goals[:: task.every]
        for method in task.methods
    ]


def _in_turn(task: _RunningTask, goals: Sequence[Goal]) -> list[RunningRow]:
    """Return the goals after the first, in a random order, each with what was measured for those before it."""
    probed, truth = halves_of(task.folder)
    asked = list(goals)
    random.Random(task.seed).shuffle(asked)
    known: tuple[Sample, ...] = ()
    rows = []
    for number, goal in enumerate(asked[: 1 + len(asked) // task.every]):
        spent, samples = self_trained(probed, truth, goal, seed=task.seed + number, known=known)
        rows.append(_row(task, truth, goal, "self", spent))
        known = (*known, *(replace(sample, id=f"{number} {sample.id}") for sample in samples))
    return rows[1:]


def _row(task: _RunningTask, truth: Truth, goal: Goal, method: str, spent: Account) -> RunningRow:
    oracle = truth.least_cost(goal)
    return RunningRow(
        recording=truth.recording.name,
        target=goal.target or 0.0,
        deadline=goal.deadline or 0.0,
        slack=task.slack,
        method=method,
        met=spent.met,
        seconds=spent.seconds,
        spent=spent.cost,
        measuring=spent.measuring,
        moves=spent.moves,
        oracle=oracle,
        unit=truth.recording.cluster.unit,
        told=spent.told,
        ratio=spent.cost / oracle,
    )


def self_trained(
    probed: Recording,
    truth: Truth,
    goal: Goal,
    *,
    seed: int,
    known: tuple[Sample, ...] = (),
    constants: SelfMeasuringConstants = SELF_MEASURING,
) -> tuple[Account, list[Sample]]:
    """Return what a run that measures itself spent, and what it measured that others may learn from."""
    recording = truth.recording
    job = ReplayedJob(Path(recording.name), recording, seed=seed)
    settings = replace(job.settings(), goal=goal, space=truth.space)
    engine = Recorded(recording=recording, probed=probed, seed=seed, deadline=goal.deadline)
    with Project(settings=settings, replayed=job, engine=engine, display=_Silent()) as project:
        for sample in known:
            project.keep(sample)
        run = measuring_itself(project, RunOptions(seed), constants)
        ended = run.result()
    assert run.itself is not None
    spent = Account(
        ended.missed is None,
        ended.seconds,
        ended.cost,
        cost_of(ended.measured, recording.cluster),
        len(ended.starts) - 1,
        run.itself.odds,
    )
    return spent, [*ended.measured, *(start for start in ended.starts if start.resumed_from is None)]


class _Silent:
    """Shows nothing of a run that is one of hundreds."""

    def note(self, text: str) -> None:
        pass

    @contextmanager
    def progress(self, total: float, since: float = 0.0) -> Iterator[Progress]:  # noqa: ARG002
        yield Progress(total, lambda *_: None)


def _planned(strategy: str) -> Callable[[Recording, Truth, Goal, int], Account]:
    def run(probed: Recording, truth: Truth, goal: Goal, seed: int) -> Account:
        """Measure, then plan for the time that is left, then run; the run resumes a probe that trained the recipe."""
        lab = RecordedLab(probed, truth, goal, seed=seed)
        lab.profile(lab.space)
        if (already := _met_by_a_probe(lab)) is not None:
            return already
        measured = sum(sample.seconds for sample in lab.samples)
        lab.goal = replace(goal, deadline=max((goal.deadline or 0.0) - measured, 1e-9))
        chosen: Strategy = registry.create("strategy", strategy)
        decision = chosen.decide(lab)
        measured, cost = sum(sample.seconds for sample in lab.samples), lab.spent()
        if decision.config is None:
            return Account(False, measured, cost, cost, 0)
        rate = float(rates(Configs.of([decision.config]), lab.cluster)[0])
        again = lab.reused(decision) / rate
        outcome = truth.outcome(decision.config, decision.epochs, replace(goal, deadline=None))
        seconds = measured + max(outcome.seconds - again, 0.0)
        met = outcome.met and seconds <= (goal.deadline or np.inf)
        return Account(met, seconds, cost + max(outcome.seconds - again, 0.0) * rate, cost, 0)

    return run


def _met_by_a_probe(lab: RecordedLab) -> Account | None:
    """Return the account up to the first probe that met the goal itself, if one did in time: nothing is left to run."""
    seconds = 0.0
    for count, sample in enumerate(lab.samples, 1):
        seconds += sample.seconds
        if seconds <= (lab.goal.deadline or np.inf) and lab.job.reached(lab.goal.target, sample):
            cost = cost_of(lab.samples[:count], lab.cluster)
            return Account(True, seconds, cost, cost, 0)
    return None


METHODS: dict[str, Callable[[Recording, Truth, Goal, int], Account]] = {
    "self": lambda probed, truth, goal, seed: self_trained(probed, truth, goal, seed=seed)[0],
    "profile": _planned("joint"),
    "pollux": _planned("pollux"),
    "optuna": optuna,
    "asha": asha,
    "manual": manual,
}
