"""Where more workers stop paying.

    speed-up(w)   = t(w1) / t(w)                       t: the quickest way to the goal on w workers
    efficiency(w) = speed-up(w) x w1 / w               w1: the fewest workers
    gain(w)       = (speed-up(w) - speed-up(v)) x w1 / (w - v)        v: the next fewer workers

Gain is what each worker added last brings, as a share of what a worker brings at first.
Scaling pays as long as it is at least a half; beyond the quickest count more workers only
cost more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotune.plan.assess import Assessment
from cotune.types import Floats
from cotune.units import counted, duration, number

WORTH = 0.5  # the least gain of an added worker that counts as paying


@dataclass(frozen=True, slots=True)
class ScalingStep:
    """The quickest way to the goal with so many workers (a row of the assessment), against fewer of them."""

    row: int
    workers: int
    seconds: float  # median, like the cost
    cost: float
    speed_up: float
    efficiency: float
    gain: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """The steps in rising order of workers, and which of them matter."""

    steps: tuple[ScalingStep, ...]

    @property
    def last_paying(self) -> ScalingStep:
        """Return the last step up to which every added worker brings at least half of its share."""
        last = self.steps[0]
        for step in self.steps[1:]:
            if step.gain < WORTH:
                break
            last = step
        return last

    @property
    def fastest(self) -> ScalingStep:
        return min(self.steps, key=lambda step: step.seconds)

    @property
    def cheapest(self) -> ScalingStep:
        return min(self.steps, key=lambda step: step.cost)

    @property
    def words(self) -> str:
        """Return where scaling stops paying, as a sentence or two."""
        if len(self.steps) == 1:
            return f"Only {_count(self.steps[0].workers)} can be compared."
        paying, fastest, cheapest = self.last_paying, self.fastest, self.cheapest
        if paying.workers == self.steps[-1].workers:
            said = f"Scaling pays up to {_count(paying.workers)}, the most there are"
        else:
            said = f"Scaling pays up to {_count(paying.workers)}; each one beyond brings less than half of its share"
        said += f". The quickest is {_count(fastest.workers)}: {duration(fastest.seconds)}"
        if fastest.workers != cheapest.workers and cheapest.cost > 0:
            said += f", at {number(fastest.cost / cheapest.cost, 3)} times the cost of {_count(cheapest.workers)}"
        return said + "."


def scaling(found: Assessment, sure: Floats) -> Scaling | None:
    """Return the steps of an assessment; `sure` is each config's probability to reach the target at all."""
    steps: list[ScalingStep] = []
    for row in _quickest(found, sure):
        seconds, cost = float(found.seconds[row]), float(found.cost[row])
        workers = int(found.outlook.configs.workers[row])
        first, last = (steps[0], steps[-1]) if steps else (None, None)
        speed_up = first.seconds / seconds if first else 1.0
        fewest = first.workers if first else workers
        gain = (speed_up - last.speed_up) * fewest / (workers - last.workers) if last else 1.0
        steps.append(ScalingStep(row, workers, seconds, cost, speed_up, speed_up * fewest / workers, gain))
    return Scaling(tuple(steps)) if steps else None


def _quickest(found: Assessment, sure: Floats) -> Sequence[int]:
    """Return the quickest config of each number of workers that reaches the target, fewest workers first."""
    workers = found.outlook.configs.workers
    able = np.isfinite(found.seconds) & (sure >= min(found.goal.confidence, float(sure.max(initial=0.0))))
    order = np.lexsort((found.cost, found.seconds))
    order = order[able[order]]
    _, first = np.unique(workers[order], return_index=True)
    return [int(row) for row in order[first]]


def _count(workers: int) -> str:
    return counted(workers, "worker")
