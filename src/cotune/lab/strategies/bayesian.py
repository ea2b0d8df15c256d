"""Bayesian tuning of the batch alone: the batch with the best accuracy, whatever it takes.

A Tree-structured Parzen Estimator (or a Gaussian process) chooses which batch sizes are
trained to the end at one number of workers; the best final accuracy wins. Then the fewest
workers that meet the goal.

Reference: Bergstra et al., Algorithms for hyper-parameter optimization, NeurIPS 2011; Akiba et al., Optuna, KDD 2019.
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
