"""What a recording says about every goal: who meets it, at what cost, and which goals to ask.

A config meets a target at the first whole epoch that does; with several seeds it is the
run that at least half of them equal or beat. For targets from easy to hard (quantiles of all
recorded accuracies) there is one goal for each point of the true cost-time frontier, with
1.25 x its time as the deadline.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from cotune.plan.rates import rates
from cotune.recording import Recording, read
from cotune.recording.truth import first_meeting
from cotune.space import Configs, Space
from cotune.types import Config, Floats, Goal, Ints

QUANTILES = (0.2, 0.4, 0.6, 0.8, 0.95)
SLACK = 1.25
FEWEST_BEST = 4


@dataclass(frozen=True, slots=True)
class TrueRun:
    """What running a config for a goal came to."""

    met: bool
    epochs: float
    seconds: float
    cost: float


@dataclass(frozen=True)
class Truth:
    """A recording as the judge sees it."""

    recording: Recording

    @cached_property
    def space(self) -> Space:
        return self.recording.space(with_accuracy=True)

    @cached_property
    def configs(self) -> Configs:
        return self.space.configs()

    @cached_property
    def epoch_seconds(self) -> Floats:
        return self.recording.epoch_seconds(self.configs)

    @cached_property
    def rate(self) -> Floats:
        """Return the cost per second of every config."""
        return rates(self.configs, self.recording.cluster)

    @cached_property
    def _curves(self) -> tuple[list[Floats], Ints]:
        """Return the curves of every recipe, and the recipe of every config."""
        recipes = self.configs.recipes(workers_matter=self.recording.job.workers_matter)
        _, first = np.unique(recipes, return_index=True)
        found = [self.recording.accuracy(self.configs[int(row)]) for row in first]
        return [self.recording.job.sign * curves for curves in found if curves is not None], recipes

    def epochs_to(self, target: float) -> Floats:
        """Return the whole epochs each config takes to a target; infinite where it never gets there."""
        if target not in self._epochs_to:
            curves, recipes = self._curves
            level = self.recording.job.sign * target
            needed = np.array([_middle(first_meeting(seeds, level)) for seeds in curves])
            self._epochs_to[target] = np.asarray(needed[recipes])
        return self._epochs_to[target]

    def share_met(self, config: Config, cap: int, goal: Goal) -> float:
        """Return the share of a config's runs, in any of its starts, that meet a goal within a cap of epochs."""
        row = self.space.row(config)
        assert row is not None, f"{config} lies outside the space"
        assert goal.target is not None
        curves, recipes = self._curves
        needed = first_meeting(curves[int(recipes[row])], self.recording.job.sign * goal.target)
        allowed = np.minimum(cap, (goal.deadline or np.inf) / self._seconds_by_start[:, row])
        return float((needed[:, None] <= allowed[None, :]).mean())

    @cached_property
    def _seconds_by_start(self) -> Floats:
        return self.recording.epoch_seconds_by_start(self.configs)

    @cached_property
    def _epochs_to(self) -> dict[float, Floats]:
        return {}

    @cached_property
    def targets(self) -> list[float]:
        """Return targets from easy to hard."""
        curves, _ = self._curves
        values = np.concatenate([seeds[np.isfinite(seeds)] for seeds in curves]) if curves else np.empty(0)
        if len(values) == 0:
            return []
        sign = self.recording.job.sign
        return [sign * float(level) for level in np.unique(np.quantile(values, QUANTILES, method="lower"))]

    def goals(self) -> list[Goal]:
        """Return one goal for each target and point of its cost-time frontier, the easy targets first."""
        found = []
        for target in self.targets:
            seconds = self.epochs_to(target) * self.epoch_seconds
            for row in frontier(seconds, seconds * self.rate):
                goal = Goal(target, SLACK * float(seconds[row]), max_epochs=max(1, self.recording.last_epoch))
                found.append(goal)
        return found

    def best(self, goal: Goal) -> int | None:
        """Return the row of the cheapest config that meets a goal."""
        assert goal.target is not None
        seconds = self.epochs_to(goal.target) * self.epoch_seconds
        cost = np.where(seconds <= (goal.deadline or np.inf), seconds * self.rate, np.inf)
        row = int(np.lexsort((seconds, cost))[0])
        return row if np.isfinite(cost[row]) else None

    def least_cost(self, goal: Goal) -> float:
        """Return what the cheapest config that meets a goal of the frontier costs."""
        best = self.best(goal)
        assert best is not None
        return self.outcome(self.configs[best], goal.max_epochs, goal).cost

    def outcome(self, config: Config, cap: int, goal: Goal) -> TrueRun:
        """Return what running a config up to a cap of epochs comes to."""
        row = self.space.row(config)
        assert row is not None, f"{config} lies outside the space"
        assert goal.target is not None
        needed = float(self.epochs_to(goal.target)[row])
        reached = needed <= cap
        epochs = needed if reached else float(min(cap, self.recording.last_epoch))
        seconds = epochs * float(self.epoch_seconds[row])
        met = reached and seconds <= (goal.deadline or np.inf)
        return TrueRun(met, epochs, seconds, seconds * float(self.rate[row]))


recording_of = cache(read)


@cache
def halves_of(folder: Path) -> tuple[Recording, Truth]:
    """Return what probes see of a recording, and the half that judges."""
    probed, trained = recording_of(folder).halves()
    return probed, Truth(trained)


def _middle(epochs: Floats) -> float:
    """Return the epochs that at least half of the runs need at most."""
    return float(np.sort(epochs)[(len(epochs) - 1) // 2])


def frontier(seconds: Floats, cost: Floats) -> list[int]:
    """Return the rows that no other beats in both, the quickest first."""
    order = np.lexsort((cost, seconds))
    rows, cheapest = [], np.inf
    for row in order:
        if np.isfinite(seconds[row]) and cost[row] < cheapest:
            rows.append(int(row))
            cheapest = float(cost[row])
    return rows
