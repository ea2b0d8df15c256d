"""The batch first, whatever it takes; then the fewest workers that meet the goal.

    bayesian   the batch with the best final accuracy of those that a Tree-structured Parzen Estimator (or a Gaussian
               process) has trained to the end, at one number of workers
    lb_bsp     b = argmax over batches of  b / t(b)      t(b): seconds of one worker's step

LB-BSP has equal finishing times with equal batches on identical workers, so what is left of the method is the batch:
the one that one worker gets through the most examples per second with.

Reference: Bergstra et al., Algorithms for hyper-parameter optimization, NeurIPS 2011; Akiba et al., Optuna, KDD 2019.
Reference: Chen et al., Semi-dynamic load balancing (LB-BSP), SoCC 2020; its poster, SoCC 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cotune.bounds import Count
from cotune.lab.restricted import fewest_workers, values
from cotune.lab.strategy import Decision, Lab
from cotune.lab.study import Sampler, study
from cotune.space import Space
from cotune.types import Config, Value

__all__ = ["Bayesian", "LbBsp"]


@dataclass(frozen=True, slots=True)
class Bayesian:
    """Tune the batch for accuracy alone with Optuna, then take the fewest workers."""

    trials: Count = 10
    sampler: Sampler = "tpe"
    workers: Literal["most", "fewest"] = "most"

    def decide(self, lab: Lab) -> Decision:
        counts = values(lab.space, "workers")
        by_count = {count: values(lab.space.pinned(workers=[count]), "batch_size") for count in counts}
        most = max(len(batches) for batches in by_count.values())
        usable = [count for count in counts if len(by_count[count]) == most]
        fixed = usable[-1] if self.workers == "most" else usable[0]
        batch_size = self.batch_size(lab, lab.space.pinned(workers=[fixed]))
        part = lab.space.pinned(batch_size=[batch_size])
        return fewest_workers(lab, part, lab.forecaster(lab.profile(part)))

    def batch_size(self, lab: Lab, space: Space) -> int:
        """Return the batch with the best accuracy in full runs on a space of one number of workers."""
        configs = space.configs()
        order = np.argsort(configs.batch_size, kind="stable")
        tuned = study(self.sampler, lab.seed)
        scores: dict[int, float] = {}
        for _ in range(self.trials):
            trial = tuned.ask()
            place = trial.suggest_int("batch", 0, len(order) - 1)
            if place not in scores:
                sample = lab.train(configs[int(order[place])], lab.goal.max_epochs, on=True)
                best = max((lab.job.sign * point.accuracy for point in sample.curve), default=None)
                scores[place] = -1e9 if best is None else best
            tuned.tell(trial, -scores[place])
        return int(configs.batch_size[order[max(scores, key=lambda place: scores[place])]])


@dataclass(frozen=True, slots=True)
class LbBsp:
    """Take the batch with the highest throughput, then the fewest workers."""

    probes: Count = 4

    def decide(self, lab: Lab) -> Decision:
        part = lab.space.pinned(batch_size=[self.batch_size(lab, lab.space)])
        return fewest_workers(lab, part, lab.forecaster(lab.profile(part)))

    def batch_size(self, lab: Lab, space: Space) -> int:
        """Return the batch that the fewest workers of a space get through the most examples per second with."""
        batches = values(space, "batch_size")
        step = max(1, (len(batches) - 1) // max(1, self.probes - 1))
        tried = dict.fromkeys([*batches[::-step], batches[0]])
        samples = [lab.train(_on_fewest(space, batch), 0.0) for batch in tried]
        known = [sample for sample in samples if sample.epoch_seconds is not None]
        best = min(known, key=lambda sample: (sample.epoch_seconds or 0.0) * sample.config.workers)
        return best.config.batch_size


def _on_fewest(space: Space, batch: Value) -> Config:
    configs = space.pinned(batch_size=[batch]).configs()
    return configs[int(configs.workers.argmin())]
