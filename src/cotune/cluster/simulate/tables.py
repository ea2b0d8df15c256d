"""What became of each job and of each team, and which rankings flip, for those who look further than means."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from cotune.cluster.simulate.outcome import Outcome
from cotune.types import Floats, Mask

COLUMNS = (
    "policy", "job_id", "team", "model", "gpus", "submit_s", "start_s", "end_s", "completion_s", "waited_s",
    "gpu_hours", "starts", "declined", "deadline_s", "met",
)  # fmt: skip


def write_jobs(path: Path, outcomes: Mapping[str, Outcome]) -> int:
    """Write a line for each job under each policy; times in seconds on the trace's clock, empty where there is none."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for policy, outcome in outcomes.items():
            for row in range(len(outcome.jobs)):
                writer.writerow([policy, *_line(outcome, row)])
    return sum(len(outcome.jobs) for outcome in outcomes.values())


def _line(outcome: Outcome, row: int) -> list[object]:
    job, start, end = outcome.jobs[row], float(outcome.start[row]), float(outcome.end[row])
    ended = np.isfinite(end)
    return [
        job.name,
        job.team,
        job.model,
        job.gpus,
        _plain(job.submit),
        _plain(start) if np.isfinite(start) else "",
        _plain(end) if ended else "",
        _plain(end - job.submit) if ended else "",
        _plain(float(outcome.waited[row])),
        _plain(float(outcome.service[row]) / 3600.0),
        int(outcome.starts[row]),
        int(outcome.declined[row]),
        "" if job.deadline is None else _plain(job.deadline),
        "" if job.deadline is None else int(end <= job.deadline),
    ]


def _plain(value: float) -> str:
    """Return a number to a millionth, without digits that say nothing."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def teams(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Return what each team asked for and got; who has none is under ''."""
    names = np.array([job.team for job in outcome.jobs])
    found = {str(name): _team(outcome, names == name) for name in np.unique(names)}
    return dict(sorted(found.items(), key=lambda entry: -entry[1]["gpu_hours"]))


def _team(outcome: Outcome, own: Mask) -> dict[str, Any]:
    limit = outcome.limits
    alone = np.array([job.seconds for job in outcome.jobs])
    done = own & outcome.finished
    jct = (outcome.end - outcome.submit)[done]
    asked = int((own & ~np.isnan(limit)).sum())
    total = float(outcome.service.sum())
    return {
        "jobs": int(own.sum()),
        "finished": int(done.sum()),
        "declined": int(outcome.declined[own].sum()),
        "jct_mean": _mean(jct),
        "waiting_mean": _mean(outcome.waited[done]),
        "slowdown_mean": _mean(np.maximum(jct, 1.0) / np.maximum(alone[done], 1.0)),
        "gpu_hours": float(outcome.service[own].sum()) / 3600.0,
        "gpu_hours_share": float(outcome.service[own].sum()) / total if total else 0.0,
        "deadlines_asked": asked,
        "deadlines_met": int((own & (outcome.end <= limit)).sum()) if asked else None,
    }


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def common(outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Return the mean completion time of each policy over the jobs that ended under all, and how many these are.

    A policy that declines the long ones has a short mean; over the same jobs it has not.
    """
    everywhere = np.logical_and.reduce([outcome.finished for outcome in outcomes.values()])
    means = {name: _mean((outcome.end - outcome.submit)[everywhere]) for name, outcome in outcomes.items()}
    return {"jobs": int(everywhere.sum()), "jct_mean": means}


def flips(scores: Mapping[float, Mapping[str, float | None]]) -> list[tuple[float, str, str]]:
    """Return (noise, better then, better without noise) for each pair of policies whose order changes.

    A policy under which no job ended has no score, and is neither better nor worse.
    """
    levels = sorted(scores)
    truth = scores[levels[0]]
    found = []
    for noise in levels[1:]:
        for one, other in combinations(truth, 2):
            worse = _over(truth, one, other)
            if worse * _over(scores[noise], one, other) < 0:
                found.append((noise, one, other) if worse > 0 else (noise, other, one))
    return found


def _over(scores: Mapping[str, float | None], one: str, other: str) -> float:
    first, second = scores[one], scores[other]
    return 0.0 if first is None or second is None else first - second
