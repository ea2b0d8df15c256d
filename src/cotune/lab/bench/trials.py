"""What people do without a forecast, inside one deadline: trials of configs in turn, of which the best continues.

A trial trains until it meets the target, its curve ends or its time is over, and can be resumed later from where
it stopped. The first that meets the target ends it all; what was spent on all trials counts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from cotune.lab.bench.truth import Truth
from cotune.lab.study import study
from cotune.plan.rates import rates
from cotune.recording import Recording
from cotune.run.engines.recorded import Recorded, Replay
from cotune.space import Configs
from cotune.types import Config, Goal

QUARTERS = 4  # Optuna: as many parts of the deadline, the last of which is for the best trial
RUNGS = ((9, 1), (3, 3))  # ASHA: number of configs, and the epochs that they are trained to
_WORST = -1e9  # of a trial that was never evaluated


@dataclass(frozen=True, slots=True)
class Account:
    """What a method spent on a goal, and whether it met it."""

    met: bool
    seconds: float
    cost: float
    measuring: float
    moves: int
    told: float | None = None  # P(met) at the beginning, by a method that predicts it


@dataclass
class _Bench:
    """One deadline, and the trials that are paid from it."""

    truth: Truth
    goal: Goal
    seed: int
    seconds: float = 0.0
    cost: float = 0.0
    last: float = 0.0  # cost of the last trial
    trained: dict[Config, float] = field(default_factory=dict)  # epochs

    def __post_init__(self) -> None:
        self._engine = Recorded(recording=self.truth.recording, seed=self.seed)

    def picked(self, count: int) -> list[Config]:
        """Return some configs at random."""
        configs = self.truth.configs
        rows = random.Random(self.seed).sample(range(len(configs)), min(count, len(configs)))
        return [configs[row] for row in rows]

    def train(self, config: Config, upto: float = np.inf, seconds: float = np.inf) -> bool:
        """Train a config further, to an epoch or for some seconds; return whether the target was met in time."""
        begin = self.trained.get(config, 0.0)
        replay = self._engine.replay(config, self.seed, begin)
        assert isinstance(replay, Replay)  # the space holds only what was recorded
        allowed = min(seconds, (self.goal.deadline or np.inf) - self.seconds)
        known = min(self.goal.max_epochs, len(replay.accuracy))
        end = max(begin, min(upto, known, begin + allowed / replay.epoch_seconds))
        met = replay.first_meeting(self.goal.target, self.truth.recording.job.sign, end + 1e-9)
        end = end if met is None else met
        self.trained[config] = end
        taken = (end - begin) * replay.epoch_seconds
        self.last = taken * float(rates(Configs.of([config]), self.truth.recording.cluster)[0])
        self.seconds, self.cost = self.seconds + taken, self.cost + self.last
        return met is not None

    def shown(self, config: Config) -> float:
        """Return the best accuracy (which rises) that a config has shown so far."""
        replay = self._engine.replay(config, self.seed)
        assert isinstance(replay, Replay)
        seen = self.truth.recording.job.sign * replay.accuracy[: int(self.trained.get(config, 0.0))]
        known = seen[np.isfinite(seen)]
        return float(known.max()) if len(known) else _WORST

    def result(self, met: bool) -> Account:
        return Account(met, self.seconds, self.cost, self.cost - self.last, 0)


def manual(_: Recording, truth: Truth, goal: Goal, seed: int) -> Account:
    """Train one config that somebody picks to the end."""
    bench = _Bench(truth, goal, seed)
    return bench.result(bench.train(bench.picked(1)[0]))


def optuna(_: Recording, truth: Truth, goal: Goal, seed: int) -> Account:
    """Let TPE try configs, a part of the deadline each, by the accuracy they come to; go on with the best."""
    bench, tuned, space = _Bench(truth, goal, seed), study("tpe", seed), truth.space
    tried: list[Config] = []
    for _trial in range(QUARTERS - 1):
        trial = tuned.ask()
        point = [trial.suggest_int(axis.name, 0, len(axis.values) - 1) for axis in space.axes]
        config = truth.configs[int(abs(space.points - point).sum(axis=1).argmin())]  # the nearest that can be had
        if bench.train(config, seconds=(goal.deadline or np.inf) / QUARTERS):
            return bench.result(True)
        tuned.tell(trial, -bench.shown(config))
        tried.append(config)
    return bench.result(bench.train(max(tried, key=bench.shown)))


def asha(_: Recording, truth: Truth, goal: Goal, seed: int) -> Account:
    """Halve again and again: many configs for an epoch, the best of them for more, the best to the end."""
    bench = _Bench(truth, goal, seed)
    alive = bench.picked(RUNGS[0][0])
    for count, epochs in RUNGS:
        alive = sorted(alive, key=bench.shown, reverse=True)[:count]
        for config in alive:
            if bench.train(config, upto=float(epochs)):
                return bench.result(True)
    return bench.result(bench.train(max(alive, key=bench.shown)))
