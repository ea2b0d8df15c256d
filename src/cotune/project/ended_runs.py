"""Runs that came to an end, in one start or several: what they took, and what they missed of their goal.

A run may go on from a probe, which was paid for before it began; only the starts after that
are the run's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cotune.checkpoints import joined
from cotune.plan.rates import cost_of
from cotune.run.training import asks, missed
from cotune.types import Cluster, Goal, Job, Plan, Sample


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that ended, the plan it followed, and the probe it went on from, if there was one."""

    starts: tuple[Sample, ...]  # the first one first
    probe: Sample | None
    plan: Plan | None
    seconds: float
    cost: float
    missed: str | None
    asked: bool = True  # for something that can be met, and not only worked off
    measured: tuple[Sample, ...] = ()  # probes that a run without a profile has paid for

    @property
    def outcome(self) -> Literal["failed", "missed", "met", "done"]:
        """Return how it ended in one word, as the service says it too."""
        if self.last.failure is not None:
            return "failed"
        return "missed" if self.missed else "met" if self.asked else "done"

    @property
    def words(self) -> str:
        """Return how it ended for people."""
        return self.missed or ("goal met" if self.asked else "done")

    @property
    def last(self) -> Sample:
        return self.starts[-1]


def ended_run(
    job: Job,
    cluster: Cluster,
    trail: Sequence[Sample],
    plan: Plan | None,
    goal: Goal | None,
    *,
    measured: Sequence[Sample] = (),
) -> EndedRun:
    """Return what became of a trail of starts, judged by a goal where there is one.

    What was `measured` by the run itself counts as its own seconds and cost.
    """
    probe = next((start for start in reversed(trail) if start.purpose == "probe"), None)
    own = [start for start in trail if start.purpose == "run"]
    # A run that had nothing left to train shows all that was shown before it.
    before = joined(trail) if not any(start.curve for start in own) else own
    curve = next((start.curve for start in reversed(before) if start.curve), ())
    last = replace(own[-1], curve=curve)
    paid = [*measured, *own]
    seconds, cost = sum(start.seconds for start in paid), cost_of(paid, cluster)
    short = last.failure.words if last.failure else None
    if short is None and goal is not None:
        whole = replace(last, curve=next((one.curve for one in reversed(joined(own)) if one.curve), curve))
        short = missed(job, goal, whole, seconds=seconds, cost=cost, unit=cluster.unit)
    return EndedRun((*own[:-1], last), probe, plan, seconds, cost, short, asks(goal), tuple(measured))


def ended_runs(
    job: Job, cluster: Cluster, samples: Sequence[Sample], plans: Sequence[tuple[str, Plan]]
) -> tuple[EndedRun, ...]:
    """Return the runs that came to an end; these and the `plans` made so far, with their times, are newest first."""
    continued = {sample.resumed_from for sample in samples}
    ended = [sample for sample in samples if sample.purpose == "run" and sample.ended and sample.id not in continued]
    found = []
    for last in reversed(ended):
        trail = trail_of(last, samples)
        plan = _followed(next(start for start in trail if start.purpose == "run"), plans)
        found.append(ended_run(job, cluster, trail, plan, last.goal or (plan.goal if plan else None)))
    return tuple(found)


def trail_of(last: Sample, samples: Iterable[Sample]) -> list[Sample]:
    """Return the starts that led to the last, in order, from the probes that began them if any did."""
    by_id: Mapping[str, Sample] = {sample.id: sample for sample in samples}
    trail = [last]
    while (before := by_id.get(trail[0].resumed_from or "")) is not None and before not in trail:
        trail.insert(0, before)
    return trail


def _followed(first: Sample, plans: Sequence[tuple[str, Plan]]) -> Plan | None:
    # Both times are ISO 8601 in UTC; the first 19 letters are whole seconds.
    return next((plan for made, plan in plans if plan.config == first.config and made[:19] <= first.started[:19]), None)
