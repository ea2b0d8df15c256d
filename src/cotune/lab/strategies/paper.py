"""The joint-configuration paper's own method, end to end and as printed: no intervals, no planner of ours.

    samples   S = {(b, r, e, t, accuracy)}, drawn evenly over the space                       (3)
    f1(b, r)  seconds per epoch, f2(b, e) accuracy, by `lab/predictors/isotonic.py`    (1, 2)
    e*        the fewest epochs e <= floor(T_limit / f1) with f2(b, e) >= ACC       (section 3.3)
    choose    min over (b, r) of  r f1(b, r) e*, ties by accuracy, found by Tabu search (11, Alg. 2)

The paper samples ten batch sizes on each of eight workers at three numbers of epochs, 240 in all. The three are
points of one training, so that is eighty starts here, each trained to a third, two thirds or all of the epochs
allowed, in turn; every start is charged. `sampling=probes` gives it the profile that our own plans are made from.
Without a target the config of the highest f2 in time is chosen, as in the paper's tables of a fixed time. A run may
go on to the last epoch that is in time by f1: to stop at e* would miss half of the targets by f2's error alone.

Reference: Liang et al., joint configuration of resources and batch size, Chinese Journal of Computers 45(2), 2022.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cotune.bounds import Count
from cotune.lab.predictors.isotonic import Isotonic
from cotune.lab.searches.tabu import Tabu
from cotune.lab.strategy import Decision, Lab
from cotune.plan.rates import rates
from cotune.types import Floats, Ints, Sample

_PARTS = 3  # numbers of epochs that are sampled


@dataclass(frozen=True, slots=True)
class Paper:
    """Choose by the paper's two isotonic sums and Tabu search, from its own even samples or from our probes."""

    reading: Literal["pooled", "sliced"] = "pooled"
    sampling: Literal["uniform", "probes"] = "uniform"
    batch: Literal["worker", "global"] = "worker"
    starts: Count = 80
    rounds: Count = 1000

    def decide(self, lab: Lab) -> Decision:
        samples = lab.profile(lab.space) if self.sampling == "probes" else self._uniform(lab)
        keys, needed, most = self._choices(lab, samples)
        rng = random.Random(lab.seed)
        point = Tabu(rounds=self.rounds).search(lab.space, lambda points: keys[lab.space.rows(points)], rng)
        row = int(lab.space.rows(np.array([point], dtype=np.int64))[0])
        if row < 0 or not np.isfinite(keys[row, 0]):
            return Decision(None, 0, f"by f1 and f2 no config that {self.rounds} rounds came by meets the goal")
        reason = f"the best of {len(lab.space)} by f1 and f2, after {int(needed[row])} epochs"
        return Decision(lab.space.configs()[row], int(most[row]), reason)

    def _uniform(self, lab: Lab) -> list[Sample]:
        """Return starts of configs that are drawn evenly, trained for three numbers of epochs in turn."""
        configs = lab.space.configs()
        rows = random.Random(lab.seed).sample(range(len(configs)), min(self.starts, len(configs)))
        last = lab.goal.max_epochs
        upto = [max(last * (part + 1) // _PARTS, 1) for part in range(_PARTS)]
        return [lab.train(configs[row], upto[place % _PARTS], on=True) for place, row in enumerate(rows)]

    def _choices(self, lab: Lab, samples: Sequence[Sample]) -> tuple[Floats, Ints, Ints]:
        """Return the rank of every config by Eq. (11), its fewest epochs and the most that are in time."""
        predictor = Isotonic(self.reading, batch=self.batch)
        configs, goal = lab.space.configs(), lab.goal
        seconds = predictor.fit_seconds(lab.job, samples).predict(configs)
        epochs = np.arange(1, goal.max_epochs + 1)
        accuracy = predictor.fit_accuracy(lab.job, samples).predict(configs, epochs.astype(np.float64))
        in_time = np.floor((np.inf if goal.deadline is None else goal.deadline) / seconds)
        most = np.minimum(in_time, goal.max_epochs).astype(np.int64)
        reached = epochs[None, :] <= most[:, None]
        if goal.target is not None:
            reached &= accuracy >= lab.job.sign * goal.target
        able = reached.any(axis=1)
        needed = np.where(able, epochs[reached.argmax(axis=1)] if goal.target is not None else most, 0)
        score = accuracy[np.arange(len(needed)), np.maximum(needed - 1, 0)]
        cost = rates(configs, lab.cluster) * seconds * needed
        order = (cost, -score) if goal.target is not None else (-score, cost)
        keys = np.column_stack([np.where(able, part, np.inf) for part in order])
        outside = np.full((1, keys.shape[1]), np.inf)  # the row of points that the space does not have
        return np.concatenate([keys, outside]), needed, most
