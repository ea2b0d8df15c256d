"""Active profiling: measure what decides, and stop when the decision is measured.

    1  a few cheap probes of seconds per epoch, far from each other
    2  one learning curve, of a recipe whose epochs are cheap
    3  forecast; take the config that is most likely the cheapest to meet the goal
         its seconds are not measured   ->  thirty steps of it
         its recipe is not measured     ->  its learning curve, on the cheapest layout
         both are                       ->  done
       and again

The config of step 3 is chosen by what is as likely as not (confidence 1/2), not by what is
sure: a config that only might be best is worth a look, one that is surely dearer is not. A
learning curve ends at the target, or where its recipe can no longer win: when even its
quickest layout would miss the deadline, or its cheapest cost more than a measured config.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cotune.plan.assess import Assessment, assess, rates
from cotune.predict import forecaster
from cotune.profile import Design, Probe
from cotune.space import Configs, Space
from cotune.types import Cluster, Config, Floats, Goal, Job, Sample

FIRST_TIMES = 5
SHORT = 0.25  # epochs that a first probe of seconds should not exceed, where there is a choice
MARGIN = 1.15  # on epochs, before a recipe counts as beaten
FAST_LAWS = "auto(among=[ring, shared_ring, optimus])"
FAST_CURVES = "auto(among=[curve])"


@dataclass(frozen=True)
class ActiveDesign:
    """What is worth measuring for one goal, given what was measured."""

    job: Job
    goal: Goal
    space: Space
    cluster: Cluster

    @cached_property
    def _spread_out(self) -> Design:
        return Design(self.job, self.goal, self.space)

    @cached_property
    def _configs(self) -> Configs:
        return self.space.configs()

    @cached_property
    def _rate(self) -> Floats:
        return rates(self._configs, self.cluster)

    def next(self, samples: Sequence[Sample], left: int, seen: Collection[int] = ()) -> Probe | None:  # noqa: ARG002
        """Return what to measure next with so many starts left, or None when the decision is measured."""
        timed = {sample.config for sample in samples if sample.epoch_seconds is not None}
        if len(timed) < min(FIRST_TIMES, left + len(timed) - 1) and (far := self._far(samples)) is not None:
            return Probe(far, self._spread_out.time_epochs(far), f"seconds per epoch of {far}")
        if not any(sample.curve for sample in samples):
            return self._first_curve(samples)
        found = self._outlook(samples)
        row = self._hopeful(found)
        config = self._configs[row]
        if config not in timed:
            return Probe(config, self._spread_out.time_epochs(config), f"{config} may be the best: its seconds per epoch")
        if not self._trained(config.global_batch, samples):
            return self._curve(row, found, samples)
        return None

    def remaining(self, samples: Sequence[Sample]) -> int:
        """Return how many probes would still be worth having, at most."""
        return self._spread_out.remaining(samples)

    def curves(self, samples: Sequence[Sample]) -> list[int]:
        """Return the global batches whose curves share what is left of a budget."""
        return self._spread_out.curves(samples)

    def _far(self, samples: Sequence[Sample]) -> Config | None:
        """Return the config farthest from what was measured, of those that thirty steps are short for."""
        return self._spread_out.farthest(samples, self._short)

    @cached_property
    def _short(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        epochs = np.array([self._spread_out.time_epochs(config) for config in self._configs])
        return np.asarray(epochs <= max(SHORT, float(np.quantile(epochs, 0.25))))

    def _first_curve(self, samples: Sequence[Sample]) -> Probe | None:
        """Return the curve of the recipe that is cheapest if larger batches need more epochs, as they do."""
        seconds = self._seconds(samples)
        batch = self._configs.global_batch.astype(np.float64)
        prior = 1 + batch / np.sqrt(batch.min() * batch.max())
        row = int(np.argmin(seconds * self._rate * prior))
        epochs = float(self.goal.max_epochs)
        if self.goal.deadline is not None:  # no config gets through more epochs in time
            epochs = min(epochs, float(np.ceil(MARGIN * self.goal.deadline / seconds.min())))
        config = self._configs[row]
        return Probe(config, max(1.0, epochs), f"learning curve at global batch {config.global_batch}, a cheap one")

    def _curve(self, row: int, found: Assessment, samples: Sequence[Sample]) -> Probe:
        batch = int(self._configs.global_batch[row])
        seconds = found.outlook.epoch_seconds
        layout = self._cheapest_layout(batch, seconds)
        cap = self._cap(batch, seconds, self._incumbent(found, samples))
        return Probe(self._configs[layout], cap, f"{self._configs[row]} may be the best: its learning curve")

    def _seconds(self, samples: Sequence[Sample]) -> Floats:
        forecast = forecaster(self.job, samples, self.cluster, predictor=FAST_LAWS, accuracy=None)
        return forecast(self._configs, 1).epoch_seconds

    def _outlook(self, samples: Sequence[Sample]) -> Assessment:
        forecast = forecaster(self.job, samples, self.cluster, predictor=FAST_LAWS, accuracy=FAST_CURVES)
        goal = replace(self.goal, confidence=0.5)
        return assess(forecast(self._configs, goal.max_epochs), goal, self.cluster, self.job.sign)

    def _hopeful(self, found: Assessment) -> int:
        """Return the config that is likeliest the cheapest to meet the goal, or the likeliest to meet it at all."""
        cost = np.where(found.feasible, found.cost, np.inf)
        if np.isfinite(cost).any():
            return int(np.argmin(cost))
        return int(np.lexsort((found.seconds, -found.probability))[0])

    def _trained(self, batch: int, samples: Sequence[Sample]) -> bool:
        return any(sample.curve and sample.config.global_batch == batch for sample in samples)

    def _cheapest_layout(self, batch: int, seconds: Floats) -> int:
        """Return the config of this global batch whose epochs cost the least."""
        same = self._configs.global_batch == batch
        return int(np.argmin(np.where(same, seconds * self._rate, np.inf)))

    def _cap(self, batch: int, seconds: Floats, incumbent: float) -> float:
        """Return after how many epochs the recipe can no longer win."""
        layouts = self._configs.global_batch == batch
        allowed = np.full(len(self._configs), float(self.goal.max_epochs))
        if self.goal.deadline is not None:
            allowed = np.minimum(allowed, MARGIN * self.goal.deadline / seconds)
        allowed = np.minimum(allowed, MARGIN * incumbent / (seconds * self._rate))
        return float(max(1.0, np.ceil(allowed[layouts].max())))

    def _incumbent(self, found: Assessment, samples: Sequence[Sample]) -> float:
        """Return the cost of the cheapest config whose time and recipe are both measured and meet the goal."""
        rows = [row for config in {s.config for s in samples} if (row := self.space.row(config)) is not None]
        known = [row for row in rows if found.feasible[row] and self._trained(self._configs[row].global_batch, samples)]
        return min((float(found.cost[row]) for row in known), default=np.inf)
