"""Full trainings, all paid for, of which the cheapest that met the goal is kept.

    manual        what people do by hand: sixty configs at random, each trained as far as the goal allows
    optuna_both   what people do today: a tuner over workers and batch, one full training for every trial

To the tuner a run that meets the goal scores its cost; one that does not scores what it spent, ten times over, so that
near misses still guide it.

Reference: Bergstra et al., Algorithms for hyper-parameter optimization, NeurIPS 2011; Akiba et al., Optuna, KDD 2019.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from cotune.bounds import Count
from cotune.lab.strategy import Decision, Lab
from cotune.lab.study import Sampler, study
from cotune.plan.rates import rates
from cotune.space import Configs
from cotune.types import Sample

__all__ = ["Manual", "OptunaBoth"]


@dataclass(frozen=True, slots=True)
class Manual:
    """Train random configs, all paid for, and keep the cheapest that met the goal."""

    tries: Count = 60

    def decide(self, lab: Lab) -> Decision:
        configs = lab.space.configs()
        rng = random.Random(lab.seed)
        rows = rng.sample(range(len(configs)), min(self.tries, len(configs)))
        tried = [lab.train(configs[row], lab.goal.max_epochs, lab.goal.deadline) for row in rows]
        return _cheapest(lab, tried)


@dataclass(frozen=True, slots=True)
class OptunaBoth:
    """Tune workers and batch size with Optuna, a full run each, and keep the cheapest."""

    trials: Count = 20
    sampler: Sampler = "tpe"

    def decide(self, lab: Lab) -> Decision:
        space, tuned = lab.space, study(self.sampler, lab.seed)
        points, configs = space.points, space.configs()
        tried: dict[int, Sample] = {}
        for _ in range(self.trials):
            trial = tuned.ask()
            point = [trial.suggest_int(axis.name, 0, len(axis.values) - 1) for axis in space.axes]
            row = int(abs(points - point).sum(axis=1).argmin())  # the nearest that can be had
            if row not in tried:
                tried[row] = lab.train(configs[row], lab.goal.max_epochs, lab.goal.deadline)
            cost = _cost(lab, tried[row])
            tuned.tell(trial, cost if _meets(lab, tried[row]) else 10 * cost)
        return _cheapest(lab, list(tried.values()))


def _cheapest(lab: Lab, tried: list[Sample]) -> Decision:
    """Return the config of the cheapest run that met the goal."""
    met = [sample for sample in tried if _meets(lab, sample)]
    if not met:
        return Decision(None, 0, f"none of {len(tried)} runs met the goal")
    best = min(met, key=lambda sample: _cost(lab, sample))
    return Decision(best.config, lab.goal.max_epochs, f"the cheapest of {len(tried)} runs")


def _meets(lab: Lab, sample: Sample) -> bool:
    """Return whether a run reached the target in time."""
    goal = lab.goal
    on_time = goal.deadline is None or sample.seconds <= goal.deadline
    return on_time and (goal.target is None or lab.job.meets(goal.target, sample.accuracy))


def _cost(lab: Lab, sample: Sample) -> float:
    return sample.seconds * float(rates(Configs.of([sample.config]), lab.cluster)[0])
