"""What is expected of a config, and the one that is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Literal

from cotune.types.config import Config
from cotune.types.goal import Goal
from cotune.types.job import EPOCHS, ProgressUnit

Source = Literal["measured", "interpolated", "extrapolated", "assumed"]
Z90 = 1.2816  # standard deviations from the middle of a normal distribution to its 90th percentile


@dataclass(frozen=True, slots=True)
class Quantity:
    """A predicted number: its 10th, 50th and 90th percentiles, and where it comes from."""

    low: float
    mid: float
    high: float
    source: Source
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected of a config that runs to its target, or for its epochs.

    `probability` is the joint chance that target, deadline and budget are all met.
    `epochs` is the cap: the most that deadline and budget allow, for a run that misses its
    target; `epochs_needed` is what a run is expected to take. `accuracy` is that of the evaluation where a run stops,
    `best` the best of all evaluations of a run that takes all the epochs there are, as `cotune predict` shows it.
    """

    config: Config
    epochs: int
    seconds: Quantity
    cost: Quantity
    epoch_seconds: Quantity
    accuracy: Quantity | None
    probability: float
    epochs_needed: Quantity | None = None
    memory: Quantity | None = None  # bytes that a worker takes at most
    best: Quantity | None = None
    p_fits: float | None = None  # in a device's memory; None on CPUs, and where nothing tells


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """The chosen config with its forecast, the cap on epochs, its rivals and the reason.

    `forecast` is of a whole training. Where the recipe was trained already, `continues` names the
    sample that did, and `rest` is what is left for a run that goes on from there.
    """

    forecast: Forecast
    goal: Goal
    reason: str
    rivals: tuple[Forecast, ...] = ()
    searched: int = 0
    notes: tuple[str, ...] = ()
    continues: str | None = None
    rest: Forecast | None = None
    metric: str = "accuracy"  # of the job, and how it counts its progress: so a plan shows itself in its own words
    examples: int | None = None
    counting: ProgressUnit = EPOCHS

    @property
    def config(self) -> Config:
        return self.forecast.config

    @property
    def epochs(self) -> int:
        return self.forecast.epochs

    @property
    def probability(self) -> float:
        """Return the chance that target, deadline and budget are all met by a training from scratch."""
        return self.forecast.probability

    def __repr__(self) -> str:
        """Return the decision table and the reason, as text."""
        return self._shown("plan_text")

    def _repr_html_(self) -> str:
        """Return the decision table and the reason, for a notebook."""
        return self._shown("plan_html")

    def _shown(self, form: str) -> str:
        """Return the plan as what stands above records shows it; that is named by an entry point."""
        for point in entry_points(group="cotune.shown", name=form):
            return str(point.load()(self))
        return f"{self.config}: {self.reason}"
