"""How a job that was served ended: in one word and a line, and as JSON beside what was forecast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotune.cluster.live_job import Serving, whole
from cotune.cluster.service.states import State
from cotune.documents import config_document
from cotune.plan.rates import cost_of
from cotune.run.training import asks, missed
from cotune.types import Cluster
from cotune.units import duration


def outcome_of(served: Serving, cluster: Cluster, seconds: float | None = None) -> tuple[State, str]:
    """Return what became of a job `seconds` after it was submitted, by default what it waited and ran here."""
    sample, active = whole(served), served.active
    if active.declined:
        return State.DECLINED, "its deadline cannot be kept beside the others'"
    if served.failure is not None or sample is None:
        return State.FAILED, str(served.failure or "it never started")
    took = active.waited + active.executed if seconds is None else seconds
    goal = served.queued.goal
    starts = (*served.queued.earlier, *served.starts)
    waited = active.waited if seconds is None else max(took - sum(start.seconds for start in starts), 0.0)
    cost = cost_of(starts, cluster)
    short = missed(served.queued.job, goal, sample, seconds=took, cost=cost, unit=cluster.unit)
    if short:
        return State.MISSED, short
    idle = "waiting" if seconds is None else "waiting or being measured"
    after = f"after {duration(took)}, {duration(waited)} of it {idle}"
    return (State.MET, f"goal met {after}") if asks(goal) else (State.DONE, f"done {after}")


def result_document(
    served: Serving, cluster: Cluster, forecast: Mapping[str, Any] | None, seconds: float
) -> dict[str, Any]:
    """Return what a job took and reached, beside what was forecast of it."""
    sample = whole(served)
    starts = (*served.queued.earlier, *served.starts)
    return {
        "seconds": seconds,
        "trained_seconds": sum(start.seconds for start in starts),
        "waited_seconds": max(seconds - sum(start.seconds for start in starts), 0.0),
        "starts": len(starts),
        "epochs": sample.epochs if sample else 0.0,
        "accuracy": sample.accuracy if sample else None,
        "config": config_document(sample.config) if sample else None,
        "cost": {"value": cost_of(starts, cluster), "unit": cluster.unit},
        "samples": [start.id for start in starts],
        "forecast": (forecast or {}).get("forecast"),
    }
