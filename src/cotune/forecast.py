"""The waist between learning and choosing: what is expected of many configs, as seeded draws.

    Configs -> Outlook          one row: Config -> Forecast

Draw d of config i takes  startup[i] * exp(startup_spread * z_time[d])  seconds to begin and
epoch_seconds[i] * exp(spread[i] * z_time[d])  seconds an epoch,
and its evaluation after epoch e shows  shown[m, d, e]
with m = recipe[i]: configs of one recipe share one learning curve. Keeping the factors of seconds instead of their
draws makes a hundred thousand configs fit into memory. The draws are the same for all configs, so that two configs are
compared under the same luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from cotune.layouts import LayoutModel
from cotune.space import Configs
from cotune.types import Config, Floats, Goal, Ints

Sources = npt.NDArray[np.object_]
_SAME = 1e-9  # steps that differ by less are the same
LEAST_EVALUATIONS = 3  # of the longest learning curve, before a target is judged by a forecast


@dataclass(frozen=True, eq=False)
class Learning:
    """What recipes (rows) show after step, 2 step, ... epochs (columns), draw by draw; accuracy rises (sign applied).

    A recipe that is evaluated less often than others has its last column repeated.

    Where the learning rate falls to the end of each run, column e holds the end of a run of e epochs. `of_length` then
    returns what runs of given lengths (one for each recipe, multiples of `grain`) show at every evaluation.
    """

    recipe: Ints  # the row of each config
    shown: Floats  # (recipes, draws, evaluations) what single evaluations show
    source: Sources  # of each recipe, up to the epoch that is told
    told: Floats  # of each recipe: beyond it all is extrapolated
    step: Floats | float = 1.0  # epochs between two evaluations, of each recipe or of all
    of_length: Callable[[Floats], Learning] | None = None
    grain: float = 1.0

    @cached_property
    def best(self) -> Floats:
        """Return the best so far; of ends, each by itself."""
        return self.shown if self.of_length is not None else np.maximum.accumulate(self.shown, axis=2)

    @property
    def steps(self) -> Floats:
        """Return the epochs between two evaluations of each recipe."""
        return np.broadcast_to(np.asarray(self.step, dtype=np.float64), len(self.shown))

    def evaluated(self, recipe: Ints | int, epochs: Floats | float) -> Ints:
        """Return how many evaluations some recipes have had after so many epochs."""
        return np.asarray(np.floor(epochs / self.steps[recipe] + _SAME), dtype=np.int64)

    def column(self, recipe: Ints | int, epochs: Floats) -> Ints:
        """Return the column of the last evaluation in so many epochs, of those there are; the first for none."""
        return np.clip(self.evaluated(recipe, epochs), 1, self.shown.shape[2]) - 1

    def surely(self, confidence: float) -> Floats:
        """Return the best so far (recipes, evaluations) that is passed in such a share of the draws."""
        return np.asarray(np.quantile(self.best, 1 - confidence, axis=1))


@dataclass(frozen=True, slots=True)
class Success:
    """A run from scratch that met its goal in so many seconds."""

    config: Config
    seconds: float
    goal: Goal

    def speaks_for(self, goal: Goal, sign: int) -> bool:
        """Say whether a run that met its own goal would have met another."""
        if goal.target is not None and (self.goal.target is None or sign * self.goal.target < sign * goal.target):
            return False
        if goal.target is None and self.goal.cap < goal.cap:
            return False
        return (goal.deadline is None or self.seconds <= goal.deadline) and goal.max_cost is None


@dataclass(frozen=True, slots=True)
class MemoryOutlook:
    """The peak memory of a worker of each config in bytes, and the chance that it fits; NaN where nothing tells."""

    low: Floats
    mid: Floats
    high: Floats
    p_fits: Floats
    source: Sources


@dataclass(frozen=True)
class Outlook:
    """Forecasts of many configs in factored form; nothing is known of accuracy where it is left to the user."""

    configs: Configs
    epoch_seconds: Floats  # (n,) median
    spread: Floats  # (n,) standard deviation of the logarithm
    seconds_source: Sources  # (n,)
    startup: Floats  # (n,) seconds, once; median
    overhead: Floats  # (n,) seconds of evaluation and checkpoint, each epoch
    z_time: Floats  # (draws,) standard normal
    learning: Learning | None = None  # from scratch
    continued: Learning | None = None  # for a run that goes on from what a probe has left
    startup_spread: float = 0.0  # standard deviation of the logarithm
    notes: tuple[str, ...] = ()
    memory: MemoryOutlook | None = None
    successes: tuple[Success, ...] = ()  # the earliest first
    before: Callable[[Configs, int], Outlook] | None = None  # what was forecast without the last of them
    layouts: LayoutModel | None = None  # what knows the layouts of a large model

    @property
    def draws(self) -> int:
        return len(self.z_time)

    def sooner(self, seconds: float) -> Outlook:
        """Return the outlook of starts that begin so many seconds sooner, at once at best."""
        before = self.before
        earlier = None if before is None else lambda configs, max_epochs: before(configs, max_epochs).sooner(seconds)
        return replace(self, startup=np.maximum(self.startup - seconds, 0.0), before=earlier)

    def begun(self, rows: Ints) -> Floats:
        """Return the seconds before the first step of some configs, in every draw."""
        return np.asarray(self.startup[rows, None] * np.exp(self.startup_spread * self.z_time))

    def each(self, rows: Ints) -> Floats:
        """Return the seconds of every further epoch of some configs, in every draw."""
        return self.pace(rows) + self.overhead[rows, None]

    def pace(self, rows: Ints) -> Floats:
        """Return the seconds per epoch of some configs, in every draw."""
        return np.asarray(self.epoch_seconds[rows, None] * np.exp(self.spread[rows, None] * self.z_time))


@lru_cache(maxsize=16)
def standard_draws(draws: int, seed: int) -> Floats:
    """Return standard normal draws whose quantiles are those of a normal exactly, in an order that fills evenly.

    They are ranks of the points k / g mod 1 with g the golden ratio, shifted by the seed (Roberts 2018): any few that
    follow one another are spread over all values.
    """
    from scipy.special import ndtri

    golden = (1 + math.sqrt(5)) / 2
    points = (np.random.default_rng(seed).random() + np.arange(1, draws + 1) / golden) % 1.0
    normal = ndtri((points.argsort().argsort() + 0.5) / draws)
    normal.flags.writeable = False  # the same draws are handed out again
    return np.asarray(normal)


Forecaster = Callable[[Configs, int], Outlook]  # configs, and the most epochs of interest
