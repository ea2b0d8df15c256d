"""Strategies: how a method chooses workers and batch size for a goal.

A strategy gets a `Lab`, where it may measure (every start is charged) and ask for
forecasts, and returns a `Decision`. A rival is a restriction of the joint plan: an axis
pinned, another preference, another law; none of them has a planner of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cotune.forecast import Forecaster
from cotune.predict import ACCURACY, SECONDS, TooFewSamples
from cotune.project.planner import Question
from cotune.space import Configs, Space
from cotune.types import Config, Floats, Sample


@dataclass(frozen=True, slots=True)
class Decision:
    """The config to run and the most epochs it may take, or None for a goal that is refused."""

    config: Config | None
    epochs: int
    reason: str
    probability: float | None = None  # P(met) of the plan, by a strategy that forecasts it


class Lab(Question, Protocol):
    """Where a strategy measures; whoever offers it keeps account of what was spent."""

    @property
    def seed(self) -> int: ...

    def train(self, config: Config, epochs: float, seconds: float | None = None, *, on: bool = False) -> Sample:
        """Start a config; it ends at the goal's target (or goes `on`), at so many epochs or so many seconds."""
        ...

    def profile(self, space: Space) -> Sequence[Sample]:
        """Measure what a plan within this space needs, as `cotune profile` does; return all samples so far."""
        ...

    def forecaster(self, samples: Sequence[Sample], predictor: str = SECONDS, accuracy: str = ACCURACY) -> Forecaster:
        """Return what these samples let us expect of any config."""
        ...

    def trained(self, configs: Configs) -> Floats:
        """Return the epochs that a run of each config need not train again (see `cotune.checkpoints`)."""
        ...

    def hindsight(self) -> Decision:
        """Return the best there is, by the truth itself; only a benchmark can tell."""
        ...


class Strategy(Protocol):
    """A way to choose."""

    def decide(self, lab: Lab) -> Decision:
        """Measure as needed, and choose."""
        ...


def decision_of(strategy: Strategy, lab: Lab) -> Decision:
    """Return what a strategy decides; too few samples for its laws are its refusal, and what they cost stays spent."""
    try:
        return strategy.decide(lab)
    except TooFewSamples as error:
        return Decision(None, 0, str(error))
