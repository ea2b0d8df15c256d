"""The placement problem: which type and how many units each run of layers gets.

    tau               seconds of the slowest stage for `batch` examples
    throughput      = batch / tau
    cost per example = tau / batch x sum over stages of units x price per second

subject to a least throughput and to the units that there are of each type. Neighbouring
stages are of different types, unless cuts inside a type are free to make.

An objective is a value of plans and a bound on intervals of time. An interval holds the plans whose slowest stage takes
lo..hi seconds and which cost at least `cost`. Both objectives agree with the two facts that make the bisection of
`exact` exact: the cheapest plan at hi is best among those between its own time and hi, and no plan of an interval has a
value below its bound.

Reference: Liu et al., HeterPS, Future Generation Computer Systems, 2023, its formulas corrected (docs/placement.md).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotune.placement.profiles import Profile
from cotune.placement.stage_times import Stages, stages_of
from cotune.types import Floats, Stage

Run = tuple[int, int, int, int]  # type, first layer, last layer, units
SLACK = 1e-12  # seconds that differ by less, relatively, are the same
TIE = 1e-9  # costs that differ by less, relatively, are the same


@dataclass(frozen=True)
class Problem:
    """Types with prices and limits, the stages they could run, and the throughput asked for."""

    types: tuple[str, ...]
    prices: Floats  # per unit and second
    limits: Floats  # infinite where there is none
    stages: Stages
    batch: float
    throughput: float
    free: bool = False
    currency: str = "USD"

    @classmethod
    def of(
        cls,
        profile: Profile,
        throughput: float,
        *,
        overlap: bool = True,
        free: bool = False,
        batch: float | None = None,
    ) -> Problem:
        """Return the problem of a profile, for a batch other than its own if its times say what that takes."""
        return cls(
            types=tuple(entry.name for entry in profile.types),
            prices=np.array([entry.price_per_hour / 3600.0 for entry in profile.types]),
            limits=np.array([np.inf if entry.limit is None else float(entry.limit) for entry in profile.types]),
            stages=stages_of(profile, overlap=overlap, batch=batch),
            batch=profile.batch if batch is None else batch,
            throughput=throughput,
            free=free,
            currency=profile.currency,
        )

    @property
    def depth(self) -> int:
        """Return the number of layers."""
        return self.stages.depth

    @property
    def slowest(self) -> float:
        """Return the most seconds a stage may take."""
        return self.batch / self.throughput * (1 + SLACK) if self.throughput > 0 else sys.float_info.max

    def used(self, runs: Sequence[Run]) -> Floats:
        """Return the units of each type."""
        used = np.zeros(len(self.types))
        for kind, _, _, units in runs:
            used[kind] += units
        return used

    def placement(self, runs: Sequence[Run]) -> Placement:
        """Return the record of a plan."""
        return Placement(
            stages=tuple(Stage(self.types[kind], int(units), first, last) for kind, first, last, units in runs),
            stage_seconds=tuple(self.stages.seconds(*run) for run in runs),
            batch=self.batch,
            price=float(sum(self.prices[kind] * units for kind, _, _, units in runs)),
            limited_by=tuple(self.stages.limited_by(*run) for run in runs),
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """Layers on devices: the stages in order, the seconds each takes, and the price of all units per second."""

    stages: tuple[Stage, ...]
    stage_seconds: tuple[float, ...]
    batch: float
    price: float
    limited_by: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Return the seconds of the slowest stage for one batch."""
        return max(self.stage_seconds)

    @property
    def throughput(self) -> float:
        """Return the examples per second."""
        return self.batch / self.seconds

    @property
    def units(self) -> int:
        return sum(stage.workers for stage in self.stages)

    @property
    def cost_per_million(self) -> float:
        """Return the price of a million examples at the throughput that the plan really has."""
        return 1e6 * self.seconds / self.batch * self.price

    @property
    def bottleneck(self) -> int:
        """Return the place of the slowest stage."""
        return self.stage_seconds.index(self.seconds)

    def better_than(self, other: Placement | None, *, fast: bool = False) -> bool:
        """Return whether this is cheaper, at equal cost has fewer units, at equal units is faster."""
        if other is None:
            return True
        mine = (self.cost_per_million, float(self.units), self.seconds / self.batch)
        its = (other.cost_per_million, float(other.units), other.seconds / other.batch)
        if fast:
            mine, its = (mine[2], mine[0], mine[1]), (its[2], its[0], its[1])
        for left, right in zip(mine, its, strict=True):
            if abs(left - right) > TIE * max(left, right):
                return left < right
        return False


def in_words(stages: Sequence[Stage], between: str = " | ") -> str:
    """Return stages in one line: units, type and layers of each."""
    return between.join(f"{stage.workers} {stage.device} ({stage.first}..{stage.last})" for stage in stages)


@dataclass(frozen=True)
class Cheapest:
    """The least cost; at equal cost fewer units, then the higher throughput."""

    ties: bool = True  # whether plans of equal value are told apart by their units

    def value(self, plan: Placement) -> float:
        """Return the value of a plan, infinite where it is of no use."""
        return plan.cost_per_million / 1e6

    def better(self, plan: Placement, best: Placement | None) -> bool:
        """Return whether a plan is to be kept instead."""
        return plan.better_than(best)

    def bound(self, lo: float, cost: float) -> float:  # noqa: ARG002  # time is not what is asked for
        """Return the least value of any plan of an interval; both are per example."""
        return cost

    def cutoff(self, lo: float, best: Placement | None) -> float:
        """Return the price above which no plan of an interval is of use."""
        return np.inf if best is None else self.value(best) * (1 + TIE) / lo


@dataclass(frozen=True)
class Fastest:
    """The highest throughput; at equal throughput the least cost. `below` asks for a cost under that, per example."""

    below: float = np.inf
    ties: bool = False

    def value(self, plan: Placement) -> float:
        return plan.seconds / plan.batch if self._affordable(plan.cost_per_million / 1e6) else np.inf

    def better(self, plan: Placement, best: Placement | None) -> bool:
        return np.isfinite(self.value(plan)) and plan.better_than(best, fast=True)

    def bound(self, lo: float, cost: float) -> float:
        return lo if self._affordable(cost) else np.inf

    def cutoff(self, lo: float, best: Placement | None) -> float:  # noqa: ARG002  # only the cost bounds the price
        return self.below / lo

    def _affordable(self, cost: float) -> bool:
        return cost < self.below * (1 - TIE)


Objective = Cheapest | Fastest  # what is minimised; values are per example, so that batches of different size compare
