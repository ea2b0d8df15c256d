"""What is said and done while a planned run goes on: its odds, whether it is late, what would help, and when it moves.

After each evaluation the odds are told anew (`predict/run_odds.py`), unless that would take more than a tenth of the
run's time. When they have fallen below what was asked, that is said with what would help: a quicker layout of the same
recipe, which the run goes on with where it may (it keeps checkpoints, and is not fixed), a later deadline, or an easier
target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cotune import progress
from cotune.checkpoints import joined
from cotune.errors import CotuneError
from cotune.jobfile.settings import Settings
from cotune.predict.evidence import PREDICTORS, Evidence
from cotune.predict.run_odds import PACE, RunBelief, RunClock, believe
from cotune.probe.self_change import REST, SelfChange
from cotune.run.launch import Launch
from cotune.run.supervise import Move, restart_seconds
from cotune.run.training import overdue
from cotune.space import Configs
from cotune.types import RECORDED, Config, Goal, Job, Quantity, Sample
from cotune.units import duration

_WORTH = 0.05  # of P(met), that another layout must add
_FEWEST = 2  # evaluations that a doubt rests on


@dataclass
class PlannedOdds:
    """The odds of a run for a target, renewed with each evaluation."""

    job: Job
    goal: Goal
    target: float
    length: float  # epochs that the run is told
    known: Sequence[Sample]  # of its job, before the run
    quicker: tuple[tuple[Config, float], ...]  # layouts of the same recipe, and their seconds over those of the first
    epoch_seconds: float  # of the first of them as forecast, evaluations included, until the run tells its own
    spread: float  # of their logarithm
    clock: Callable[[], float]
    before: float = 0.0  # seconds that were spent before the run, which its deadline counts
    belief: RunBelief | None = None
    odds: float | None = None
    _starts: dict[str, Sample] = field(default_factory=dict)
    _clock: RunClock | None = None
    _evaluations: int = 0
    _resting: float = 0.0  # until when the odds are not told anew
    _warned: bool = False

    def see(self, sample: Sample) -> None:
        """Take in where the run stands."""
        self._starts[sample.id] = sample
        evaluations = sum(point.epoch > 0 for point in sample.curve)  # one before the first step tells nothing
        if sample.epoch_seconds is None or evaluations in (0, self._evaluations):
            return
        if self.job.reached(self.goal.target, sample):
            self.belief = self.odds = None
            return
        begun = self.clock()
        if begun < self._resting and sample.curve[-1].epoch < self.length:
            return
        self._evaluations = evaluations
        *before, run = joined((*self.known, *self._starts.values()))
        self.belief = believe(self.job, before, run, target=self.target, length=self.length)
        self._clock = self._told_clock(sample)
        self.odds = self.belief.odds(self._clock)
        self._resting = self.clock() + REST * (self.clock() - begun)

    @property
    def low(self) -> bool:
        """Return whether the odds are below what was asked."""
        return self.odds is not None and self.odds < self.goal.confidence and self._evaluations >= _FEWEST

    @property
    def words(self) -> str:
        """Return what is thought of the run, to be shown with its progress."""
        return "" if self.odds is None else f", P(met) {self.odds:.2f}"

    def warning(self) -> str | None:
        """Return what would help, when the odds have just fallen below what was asked."""
        new, self._warned = self.low and not self._warned, self.low
        if not new or self.odds is None:
            return None
        return f"P(met) {self.odds:.2f} is below the {self.goal.confidence:g} asked: {self._remedy()}"

    def better(self, now: Config, restart: float) -> tuple[Config, float] | None:
        """Return the layout of the same recipe that makes the run the surest, and its odds, if it adds enough."""
        if self.belief is None or self._clock is None or self.odds is None:
            return None
        here = next((ratio for config, ratio in self.quicker if config == now), None)
        if here is None:
            return None
        spent, each = self._clock.spent + restart, self._clock.epoch_seconds / here
        found = [
            (config, self.belief.odds(replace(self._clock, spent=spent, epoch_seconds=each * ratio)))
            for config, ratio in self.quicker
            if ratio < here
        ]
        best = max(found, key=lambda one: one[1], default=None)
        return best if best is not None and best[1] > self.odds + _WORTH else None

    def _told_clock(self, sample: Sample) -> RunClock:
        """Return the clock of a run: its pace is as forecast until two evaluations of a start tell it."""
        spent = self.before + sum(start.seconds for start in self._starts.values())
        deadline = self.goal.deadline
        first, last = sample.curve[0], sample.curve[-1]
        if last.epoch > first.epoch:
            return RunClock(spent, (last.seconds - first.seconds) / (last.epoch - first.epoch), deadline)
        ratio = next((ratio for config, ratio in self.quicker if config == sample.config), 1.0)
        return RunClock(spent, ratio * self.epoch_seconds, deadline, math.hypot(self.spread, PACE))

    def _remedy(self) -> str:
        assert self.belief is not None
        assert self._clock is not None
        if (passed := overdue(self.goal, self._clock.spent)) is not None:
            return passed
        others = [f"{config} would make it {odds:.2f}" for config, odds in filter(None, [self._surest()])]
        wanted = self.belief.quantile(self.goal.confidence)
        if np.isfinite(wanted) and self.goal.deadline is not None:
            end = self._clock.spent + (wanted - self.belief.done) * self._clock.epoch_seconds
            later = duration(max(end, self.goal.deadline))
            others.append(f"a deadline of {later} would make it {self.goal.confidence:g}")
        if not np.isfinite(wanted):
            most = progress.words(self.job, self.quicker[0][0], self.length)
            others.append(f"at most {most} may be too few: more of them, or an easier target, would help")
        return "; ".join(others)

    def _surest(self) -> tuple[Config, float] | None:
        return self.better(self.quicker[0][0], 0.0) if self.quicker else None


def own_odds(law: PlannedOdds | None, global_batch: int) -> Callable[[Sample], tuple[float, RunBelief] | None]:
    """Return what tells the odds of a run that measures itself by the law of its job, while it keeps this batch."""

    def told(sample: Sample) -> tuple[float, RunBelief] | None:
        if law is None or sample.config.global_batch != global_batch:
            return None
        law.see(sample)
        return None if law.odds is None or law.belief is None else (law.odds, law.belief)

    return told


@dataclass
class RunWatch:
    """Watches a run for a goal: `odds` where they can be told, and what else may move it."""

    goal: Goal
    odds: PlannedOdds | SelfChange | None
    layouts: Callable[[Sample], Move | None]
    fixed: bool = False
    before: float = 0.0  # seconds that were spent before the run, which its deadline counts
    _seconds: dict[str, float] = field(default_factory=dict)  # of each start
    _late: bool = False  # and said so

    def move(self, sample: Sample) -> Move | None:
        """Return where a run is to go on, if anywhere else."""
        move = self.layouts(sample)
        if move is not None or self.fixed or not isinstance(self.odds, PlannedOdds) or not self.odds.low:
            return move
        restart = restart_seconds(sample)
        better = self.odds.better(sample.config, restart)
        return None if better is None else Move(better[0], f"P(met) {better[1]:.2f} instead of {self.odds.odds:.2f}")

    def see(self, sample: Sample) -> None:
        """Take in where the run stands."""
        self._seconds[sample.id] = sample.seconds
        if self.odds is not None:
            self.odds.see(sample)

    @property
    def told(self) -> float | None:
        """Return P(met) by now, where it can be told."""
        return None if self.odds is None else self.odds.odds

    @property
    def words(self) -> str:
        """Return what to add to the run's progress."""
        return "" if self.odds is None else self.odds.words

    def warning(self, left: Quantity | None) -> str | None:
        """Return what is worth a line of its own, if anything is."""
        if self.odds is not None and self.odds.words:
            return self.odds.warning()
        return self._lateness(left)

    def end(self, cap: float) -> Quantity | None:
        """Return the epochs after which the run ends as its own evaluations tell, where they do."""
        belief = None if self.odds is None else self.odds.belief
        return None if belief is None else belief.end(cap)

    def _lateness(self, left: Quantity | None) -> str | None:
        """Return that a run is expected to end after its deadline, once, and again where that was in doubt since."""
        if self.goal.deadline is None or left is None:
            return None
        spent, late = self.before + sum(self._seconds.values()), self._late
        end = spent + left.mid
        self._late = end > self.goal.deadline
        if late or not self._late:
            return None
        return overdue(self.goal, spent) or (
            f"expected to end after {duration(end)}, its deadline is {duration(self.goal.deadline)}"
        )


def planned_odds(
    settings: Settings,
    goal: Goal,
    launch: Launch,
    evidence: Evidence,
    clock: Callable[[], float],
    *,
    before: float = 0.0,
) -> PlannedOdds | None:
    """Return what tells the odds of a run for a target by what was measured of its job; None where that is too few."""
    job = settings.job
    if launch.target is None or goal.epochs is not None or settings.engine == RECORDED:
        return None
    space = settings.space.configs()
    alike = space.take(space.valid & (space.global_batch == launch.config.global_batch))
    configs = [launch.config, *(one for one in alike if one != launch.config and one.axes == launch.config.axes)]
    try:
        if not evidence.tells_accuracy(job, goal):
            return None
        forecast = evidence.forecaster(job, settings.cluster, PREDICTORS, with_accuracy=False)
        outlook = forecast(Configs.of(configs), goal.cap)
    except CotuneError:  # too little was measured to tell anything
        return None
    each = outlook.epoch_seconds + outlook.overhead
    ratios = each / each[0]
    able = [(config, float(ratio)) for config, ratio in zip(configs, ratios, strict=True) if np.isfinite(ratio)]
    return PlannedOdds(
        job,
        goal,
        launch.target,
        float(launch.epochs),
        evidence.all_samples,
        tuple(able),
        float(each[0]),
        float(outlook.spread[0]),
        clock,
        before,
    )
