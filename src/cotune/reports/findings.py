"""Everything that a report says of a job, computed once and drawn in several ways.

    sure[i] = share of draws in which config i reaches the target at all, however late

A config on the frontier is quicker than all that cost less, and reaches the target with the
confidence asked for; whether it does so in time is what the deadline decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cotune.errors import Infeasible
from cotune.forecast import Outlook
from cotune.plan.assess import Assessment, assess, rates
from cotune.plan.grid import Grid
from cotune.plan.planner import decide
from cotune.reports.scaling import Scaling, scaling
from cotune.reuse import Kept
from cotune.run.training import missed
from cotune.space import Configs, Space
from cotune.types import Cluster, Floats, Goal, Ints, Job, Plan, Sample


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run that ended, in one start or several, and the plan it followed."""

    starts: tuple[Sample, ...]  # the first one first
    plan: Plan | None
    seconds: float
    cost: float
    missed: str | None

    @property
    def last(self) -> Sample:
        return self.starts[-1]


@dataclass(frozen=True)
class Findings:
    """A job's goal, what every config would take, the plan or why there is none, and what was measured."""

    job: Job
    goal: Goal
    cluster: Cluster
    assessed: Assessment
    plan: Plan | None
    refusal: Infeasible | None
    samples: tuple[Sample, ...]
    outcomes: tuple[Outcome, ...]

    @cached_property
    def sure(self) -> Floats:
        """Return the probability of each config to reach the target within the most epochs."""
        found = self.assessed
        share = np.isfinite(found.needed).mean(axis=1)
        if len(share) == 1 or found.outlook.recipe is None:
            return np.full(len(found.seconds), share[0])
        return np.asarray(share[found.outlook.recipe], dtype=np.float64)

    @cached_property
    def frontier(self) -> Ints:
        """Return the configs that no other beats in both time and cost, quickest first."""
        found = self.assessed
        rows = np.flatnonzero(np.isfinite(found.cost) & (self.sure >= self.goal.confidence))
        order = rows[np.lexsort((found.cost[rows], found.seconds[rows]))]
        least = np.minimum.accumulate(np.concatenate([[np.inf], found.cost[order]]))
        return np.asarray(order[found.cost[order] < least[:-1]], dtype=np.int64)

    @cached_property
    def scaling(self) -> Scaling | None:
        return scaling(self.assessed, self.sure)

    @property
    def unit(self) -> str:
        """Return the unit of every cost."""
        return self.assessed.unit

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the forecasts rest on."""
        return self.assessed.outlook.notes

    def cost(self, samples: Sequence[Sample]) -> float:
        """Return what some starts cost, in the unit of costs."""
        return cost_of(samples, self.cluster)


def find(
    job: Job,
    goal: Goal,
    space: Space,
    cluster: Cluster,
    *,
    outlook: Outlook,
    samples: Sequence[Sample] = (),
    plans: Sequence[tuple[str, Plan]] = (),
    kept: Kept | None = None,
) -> Findings:
    """Return what there is to say of a job.

    `plans` are those made so far with their times, newest first; `kept` are the probes to go on from, those of
    the samples unless they are given.
    """
    kept = Kept.among(samples) if kept is None else kept
    found = assess(outlook, goal, cluster, job.sign, kept.epochs(job, goal, outlook.configs))
    plan, refusal = None, None
    try:
        plan = decide(job, space, found, search=Grid())
        before = kept.of(plan.config, goal)
        plan = replace(plan, continues=before.id if before else None)
    except Infeasible as error:
        refusal = error
    outcomes = _outcomes(job, cluster, samples, plans)
    return Findings(job, goal, cluster, found, plan, refusal, tuple(samples), outcomes)


def cost_of(samples: Sequence[Sample], cluster: Cluster) -> float:
    """Return what some starts cost on a cluster, as plans count it; a device without a known price costs no money."""
    if not samples:
        return 0.0
    endless = replace(cluster, devices=tuple(replace(device, count=None) for device in cluster.devices))
    configs = Configs.of([sample.config for sample in samples])
    rate = rates(configs, endless)
    elsewhere = np.zeros(len(configs)) if cluster.priced else configs.workers + configs.servers
    seconds = np.array([sample.seconds for sample in samples])
    return float((seconds * np.where(np.isfinite(rate), rate, elsewhere)).sum())


def _outcomes(
    job: Job, cluster: Cluster, samples: Sequence[Sample], plans: Sequence[tuple[str, Plan]]
) -> tuple[Outcome, ...]:
    """Return the runs that came to an end, newest first."""
    by_id = {sample.id: sample for sample in samples}
    continued = {sample.resumed_from for sample in samples}
    ended = [sample for sample in samples if sample.purpose == "run" and sample.ended and sample.id not in continued]
    return tuple(_outcome(job, cluster, _trail(last, by_id), plans) for last in reversed(ended))


def _trail(last: Sample, by_id: dict[str, Sample]) -> list[Sample]:
    """Return what a run goes on from, one after another, down to the probe that began it if one did."""
    trail = [last]
    while (before := by_id.get(trail[0].resumed_from or "")) is not None and before not in trail:
        trail.insert(0, before)
    return trail


def _outcome(job: Job, cluster: Cluster, trail: Sequence[Sample], plans: Sequence[tuple[str, Plan]]) -> Outcome:
    starts = tuple(start for start in trail if start.purpose == "run")  # a probe was paid for before the run began
    first, last = starts[0], starts[-1]
    # Both are ISO 8601 in UTC; the first 19 letters are whole seconds.
    followed = (plan for made, plan in plans if plan.config == first.config and made[:19] <= first.started[:19])
    plan = next(followed, None)
    seconds, cost = sum(start.seconds for start in starts), cost_of(starts, cluster)
    short = last.failure
    if short is None and plan is not None:
        # A run that had nothing left to train shows what its probe has shown.
        curve = next((start.curve for start in reversed(trail) if start.curve), ())
        shown = replace(last, curve=curve)
        short = missed(job, plan.goal, shown, seconds=seconds, cost=cost, unit=cluster.unit)
    return Outcome(starts, plan, seconds, cost, short)
