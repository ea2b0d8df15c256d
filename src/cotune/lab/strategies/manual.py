"""What people do by hand: try sixty configs, each trained as far as the goal allows, keep the best."""

from __future__ import annotations

import random
from dataclasses import dataclass

from cotune.bounds import Count
from cotune.lab.strategy import Decision, Lab
from cotune.plan.rates import rates
from cotune.space import Configs
from cotune.types import Sample


@dataclass(frozen=True, slots=True)
class Manual:
    """Train random configs, all paid for, and keep the cheapest that met the goal."""

    tries: Count = 60

    def decide(self, lab: Lab) -> Decision:
        configs = lab.space.configs()
        rng = random.Random(lab.seed)
        rows = rng.sample(range(len(configs)), min(self.tries, len(configs)))
        tried = [lab.train(configs[row], lab.goal.max_epochs, lab.goal.deadline) for row in rows]
        return cheapest(lab, tried)


def cheapest(lab: Lab, tried: list[Sample]) -> Decision:
    """Return the config of the cheapest run that met the goal."""
    met = [sample for sample in tried if meets(lab, sample)]
    if not met:
        return Decision(None, 0, f"none of {len(tried)} runs met the goal")
    rate = rates(Configs.of([sample.config for sample in met]), lab.cluster)
    best = min(range(len(met)), key=lambda row: met[row].seconds * rate[row])
    return Decision(met[best].config, lab.goal.max_epochs, f"the cheapest of {len(tried)} runs")


def meets(lab: Lab, sample: Sample) -> bool:
    """Return whether a run reached the target in time."""
    goal = lab.goal
    on_time = goal.deadline is None or sample.seconds <= goal.deadline
    return on_time and (goal.target is None or lab.job.meets(goal.target, sample.accuracy))
