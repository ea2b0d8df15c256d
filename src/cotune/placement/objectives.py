"""What a placement search looks for, as a value of plans and a bound on intervals of time.

An interval holds the plans whose slowest stage takes lo..hi seconds and which cost at
least `cost`. Every objective here agrees with the two facts that make the
bisection exact: the cheapest plan at hi is best among those between its own time and hi,
and no plan of an interval has a value below its bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotune.placement.problems import TIE, Placement


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
