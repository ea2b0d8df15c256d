"""What a simulated schedule is worth, each number with its definition (docs/scheduling.md).

Percentiles are elements of the sorted list, not interpolated: p50 is element n // 2 and p99
element int(0.99 n) of n. Means and percentiles are over finished jobs; times are in seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cotune.cluster.policy import capacity
from cotune.cluster.simulate.outcome import Outcome
from cotune.types import Floats

_CLASSES = ((1, 1), (2, 4), (5, 8), (9, 16), (17, 32), (33, 1 << 60))


def metrics(outcome: Outcome) -> dict[str, Any]:
    """Return every metric of an outcome by name."""
    jobs, done = outcome.jobs, outcome.finished
    submit, jct = outcome.submit, outcome.completion
    gpus = np.array([job.gpus for job in jobs])
    alone = np.array([job.seconds for job in jobs])
    declined = int(outcome.declined.sum())
    slowdown = np.maximum(jct, 1.0) / np.maximum(alone[done], 1.0)
    rho = _fairness(outcome, submit, gpus, alone)
    makespan = float(outcome.end[done].max() - submit.min()) if done.any() else 0.0
    return {
        "jobs": len(jobs),
        "unfinished": int(len(jobs) - done.sum() - declined),
        "declined": declined,
        **_summary("jct", jct, ("mean", "p50", "p90", "p99")),
        "jct_by_gpus": _by_class(jct, gpus[done]),
        **_summary("waiting", outcome.waited[done], ("mean", "p50", "p99")),
        "makespan": makespan,
        **_summary("slowdown", slowdown, ("mean", "p50", "p99")),
        "fairness": {
            **_summary("rho", rho, ("mean", "p99", "max")),
            "unfair_share": float(np.mean(rho > 1.0)) if len(rho) else 0.0,
            "jain": _jain(1.0 / slowdown),
        },
        "deadlines": _deadlines(outcome),
        **_use(outcome, makespan),
        "starts": int(outcome.starts.sum()),
        "preemptions": int(np.maximum(outcome.starts - 1, 0).sum()),
        "lost_gpu_seconds": float(outcome.lost.sum()),
        **_summary("decision_seconds", outcome.latency, ("p50", "p99", "max")),
        **({} if outcome.failures is None else {"failures": dict(outcome.failures)}),
    }


def percentile(values: Floats, part: float) -> float:
    """Return element int(part x n) of the sorted values."""
    ordered = np.sort(values)
    return float(ordered[min(int(part * len(ordered)), len(ordered) - 1)])


def _summary(name: str, values: Floats, which: tuple[str, ...]) -> dict[str, float | None]:
    if len(values) == 0:
        return {f"{name}_{what}": None for what in which}
    ordered = np.sort(values)
    known = {
        "mean": float(np.mean(values)),
        "p50": float(ordered[len(ordered) // 2]),
        "p90": percentile(ordered, 0.9),
        "p99": percentile(ordered, 0.99),
        "max": float(ordered[-1]),
    }
    return {f"{name}_{what}": known[what] for what in which}


def _by_class(jct: Floats, gpus: Floats) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for low, high in _CLASSES:
        chosen = jct[(gpus >= low) & (gpus <= high)]
        if len(chosen):
            name = str(low) if low == high else f"{low}-{high}" if high < 1 << 60 else f"{low}+"
            found[name] = {"jobs": len(chosen), "jct_mean": float(chosen.mean()), "jct_p99": percentile(chosen, 0.99)}
    return found


def _fairness(outcome: Outcome, submit: Floats, gpus: Floats, alone: Floats) -> Floats:
    """Return jct / time in an equal share: of n jobs present on average, each has 1/n of the GPUs."""
    done = outcome.finished
    ends = np.where(done, outcome.end, np.inf)
    times = np.concatenate([submit, ends[done]])
    change = np.concatenate([np.ones(len(submit)), -np.ones(int(done.sum()))])
    order = np.argsort(times, kind="stable")
    times, present = times[order], np.cumsum(change[order])
    area = np.concatenate([[0.0], np.cumsum(present[:-1] * np.diff(times))])
    stay = ends[done] - submit[done]
    mean = (np.interp(ends[done], times, area) - np.interp(submit[done], times, area)) / np.maximum(stay, 1e-9)
    total = sum(capacity(outcome.cluster).values())
    isolated = alone[done] * np.maximum(1.0, gpus[done] * np.maximum(mean, 1.0) / total)
    return np.asarray(stay / np.maximum(isolated, 1e-9), dtype=np.float64)


def _jain(values: Floats) -> float | None:
    return float(values.sum() ** 2 / (len(values) * (values**2).sum())) if len(values) else None


def _deadlines(outcome: Outcome) -> dict[str, Any] | None:
    limit = outcome.limits
    asked = ~np.isnan(limit)
    if not asked.any():
        return None
    met = asked & (outcome.end <= limit)
    admitted = asked & (outcome.declined == 0)
    late = (outcome.end - limit)[admitted & outcome.finished & ~met]
    return {
        "asked": int(asked.sum()),
        "met": int(met.sum()),
        "met_share": float(met.sum() / asked.sum()),
        "admitted": int(admitted.sum()),
        "admitted_missed": int((admitted & ~met).sum()),
        "missed_by_mean": float(late.mean()) if len(late) else 0.0,
        "missed_by_max": float(late.max()) if len(late) else 0.0,
    }


def _use(outcome: Outcome, makespan: float) -> dict[str, Any]:
    cluster = outcome.cluster
    total = sum(capacity(cluster).values())
    there = total * makespan
    seconds = float(outcome.service.sum())
    cost = float(outcome.cost.sum()) if cluster.priced else seconds
    return {
        "gpu_hours": seconds / 3600.0,
        "cost": {"value": cost, "unit": cluster.unit},
        "utilisation": seconds / there if there else 0.0,
        "utilisation_useful": (seconds - float(outcome.lost.sum())) / there if there else 0.0,
        "fragmentation": outcome.idle_while_waiting / there if there else 0.0,
    }
