"""What is kept of a simulation to be looked at later: metrics, distributions, and some jobs in full.

A trace may have a hundred thousand jobs, and nobody looks at them all: kept are those that
waited longest and those served most, each with its spells and what stood in its way when
it was submitted, read off the schedule itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cotune.cluster.policy import capacity
from cotune.cluster.simulate.metrics import metrics
from cotune.cluster.simulate.outcome import Outcome
from cotune.cluster.simulate.why import blocker
from cotune.types import Floats

JOBS = 60  # of each kind: waited longest, served most
SPELLS = 60  # of one job
_POINTS = 200


def kept(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as a document; it must have kept its spells."""
    waits = np.sort(outcome.waited[outcome.finished])
    edges, held = use_over_time(outcome)
    rows = _chosen(outcome)
    spells = _by_job(outcome, rows)
    reasons = _Reasons(outcome)
    return {
        "metrics": metrics(outcome),
        "completion": _quantiles(np.sort(outcome.completion)),
        "waiting": _quantiles(waits),
        "use": {"seconds": edges[:-1].tolist(), "share": held.tolist()},
        "of": len(outcome.jobs),
        "jobs": [
            {
                "name": outcome.jobs[row].name,
                "gpus": outcome.jobs[row].gpus,
                "submit": float(outcome.submit[row]),
                "end": float(outcome.end[row]) if np.isfinite(outcome.end[row]) else None,
                "waited": float(outcome.waited[row]),
                "spells": spells[row],
                "reason": reasons(row),
            }
            for row in rows
        ],
    }


def use_over_time(outcome: Outcome) -> tuple[Floats, Floats]:
    """Return the edges of equal stretches of time, and the share of the GPUs held in each."""
    begin = min(job.submit for job in outcome.jobs)
    end = max((spell.end for spell in outcome.spells), default=begin + 1.0)
    edges = np.linspace(begin, end, _POINTS + 1)
    if not outcome.spells:
        return edges, np.zeros(_POINTS)
    spells = np.array([(spell.start, spell.end, spell.gpus) for spell in outcome.spells]).reshape(-1, 3)
    held = np.concatenate([spells[:, 2], -spells[:, 2]])
    times = np.concatenate([spells[:, 0], spells[:, 1]])
    order = np.argsort(times, kind="stable")
    area = np.concatenate([[0.0], np.cumsum(np.cumsum(held[order])[:-1] * np.diff(times[order]))])
    until = np.interp(edges, times[order], area)
    total = sum(capacity(outcome.cluster).values())
    return edges, np.diff(until) / np.maximum(np.diff(edges), 1e-9) / total


def _chosen(outcome: Outcome) -> list[int]:
    longest = np.argsort(-outcome.waited, kind="stable")[:JOBS].tolist()
    served = np.argsort(-outcome.service, kind="stable")[:JOBS].tolist()
    return sorted({*longest, *served})


def _by_job(outcome: Outcome, rows: list[int]) -> dict[int, list[list[float]]]:
    found: dict[int, list[list[float]]] = {row: [] for row in rows}
    for spell in outcome.spells:
        if spell.number in found and len(found[spell.number]) < SPELLS:
            found[spell.number].append([spell.start, spell.end, spell.gpus])
    return found


def _quantiles(values: Floats) -> dict[str, list[float]]:
    """Return points of a distribution: the values at even shares."""
    if len(values) == 0:
        return {"seconds": [], "share": []}
    shares = np.linspace(0, 1, min(len(values), _POINTS))
    places = np.minimum((shares * len(values)).astype(int), len(values) - 1)
    return {"seconds": values[places].tolist(), "share": shares.tolist()}


class _Reasons:
    """Says what stood in the way of a job at the moment it was submitted."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        table = np.array([(s.start, s.end, s.gpus, s.number) for s in outcome.spells], dtype=np.float64).reshape(-1, 4)
        self.starts, self.ends, self.gpus, self.owners = table.T
        self.total = sum(capacity(outcome.cluster).values())

    def __call__(self, row: int) -> str:
        """Return the reason, or nothing where the job did not wait at first."""
        outcome, submit = self.outcome, self.outcome.submit
        at = submit[row]
        if outcome.start[row] <= at:
            return "waited after its first start, when it was stopped for others" if outcome.waited[row] > 0 else ""
        there = (self.starts <= at) & (self.ends > at)
        free = self.total - int(self.gpus[there].sum())
        words = blocker(outcome.jobs[row].gpus, free)
        ahead = int(np.count_nonzero((submit <= at) & (outcome.start > at) & (outcome.start < outcome.start[row])))
        words += f"; {ahead} other waiting jobs went first" if ahead else ""
        largest = np.argsort(-self.gpus * there, kind="stable")[:3]
        held = [f"{outcome.jobs[int(self.owners[n])].name} ({int(self.gpus[n])})" for n in largest if there[n]]
        return words + (f"; most GPUs were held by {', '.join(held)}" if held else "")
