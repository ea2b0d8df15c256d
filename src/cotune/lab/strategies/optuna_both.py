"""What people do today: a tuner over workers and batch, one full training for every trial.

A run that meets the goal scores its cost; one that does not scores what it spent, ten
times over, so that near misses still guide the tuner.

Reference: Bergstra et al., Algorithms for hyper-parameter optimization, NeurIPS 2011; Akiba et al., Optuna, KDD 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotune.bounds import Count
from cotune.lab.strategies.manual import cheapest, meets
from cotune.lab.strategy import Decision, Lab
from cotune.lab.study import Sampler, study
from cotune.plan.rates import rates
from cotune.space import Configs
from cotune.types import Sample


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
            cost = tried[row].seconds * float(rates(Configs.of([configs[row]]), lab.cluster)[0])
            tuned.tell(trial, cost if meets(lab, tried[row]) else 10 * cost)
        return cheapest(lab, list(tried.values()))
