"""Bayesian optimisation: a tree of Parzen estimators (Optuna's) proposes the next point.

    next = argmax over points of  l(x) / g(x)

l is the density of the good points so far and g that of the others. Numbers are searched as
ordered indices, names as categories. Points that are not valid are told as infinite, which
the estimator counts among the bad ones.

Reference: Bergstra et al., Algorithms for hyper-parameter optimization, NeurIPS 2011; Akiba et al., Optuna, KDD 2019.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from cotune.bounds import Count
from cotune.lab.searches import BestSeen
from cotune.lab.study import study
from cotune.plan import Point, Rank
from cotune.space import Axis, Space


@dataclass(frozen=True, slots=True)
class Bayesian:
    """Let Optuna's estimator propose one point after the other."""

    rounds: Count = 200
    first: Count = 20

    def search(self, space: Space, rank: Rank, rng: random.Random) -> Point:
        tuned = study("tpe", rng.getrandbits(32), n_startup_trials=self.first)
        from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

        def distribution(axis: Axis) -> BaseDistribution:
            indices = range(len(axis.values))
            if any(isinstance(value, str) for value in axis.values):
                return CategoricalDistribution(list(indices))
            return IntDistribution(0, indices[-1])

        choices = {f"{place}": distribution(axis) for place, axis in enumerate(space.axes)}
        seen = BestSeen(rank)
        for _ in range(self.rounds):
            trial = tuned.ask(choices)
            point = np.array([[int(trial.params[name]) for name in choices]], dtype=np.int64)
            tuned.tell(trial, float(seen.judge(point)[0, 0]))
        return seen.point
