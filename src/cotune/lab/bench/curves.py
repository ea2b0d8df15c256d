"""How well the ends of learning curves are forecast, on tables of many data sets in one form.

    tasks.csv    task, metric, better, target, unit, bound
    curves.csv   task, variant, schedule, total, global_batch, run, progress, value      rows of a run in order

Runs that are equal in the columns before `run` are one recipe, and differ by chance only. Three questions:

    rest      the beginning of one run is shown: what is its last evaluation?
    another   the first run of a recipe is shown: what is the last evaluation of another?
    longer    shorter runs with the same `run` are shown: what is the last evaluation of the longest, for each batch?
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cotune.errors import NotFound
from cotune.lab.bench.tasks import grouped
from cotune.predict.learning import CurvePrior, JobFacts, Posterior, Run

_LEAST_SHOWN = 2
_STEP = 0.1  # of the range that was seen: how far beyond the best a target lies that what is shown has met
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class TableRun:
    """One run of a table; values rise: they have the sign."""

    task: Mapping[str, str]
    recipe: tuple[str, ...]
    """Task, variant, schedule, total and batch, as in the table."""

    name: str
    run: Run

    @property
    def sign(self) -> int:
        return 1 if self.task["better"] == "higher" else -1

    def of_task(self, column: str) -> float | None:
        """Return the target or the bound, with the sign."""
        return self.sign * float(self.task[column]) if self.task[column] else None

    def facts(self, *, schedule: bool = True) -> JobFacts:
        """Return what is known of the task; without its schedule where that is not to be known."""
        known = (self.recipe[2] or None) if schedule else None
        bound = self.of_task("bound")
        share = self.sign > 0 and bound is not None
        return JobFacts(
            np.inf if bound is None else bound, 0.0 if share else -np.inf, falls=self.sign < 0, schedule=known
        )


def read_curves(folder: Path) -> list[TableRun]:
    """Return the runs of a folder's tables."""
    if not (folder / "curves.csv").is_file():
        raise NotFound(f"no curves.csv in {folder}")
    with (folder / "tasks.csv").open() as file:
        tasks = {row["task"]: row for row in csv.DictReader(file)}
    with (folder / "curves.csv").open() as file:
        runs = grouped(csv.DictReader(file), lambda row: tuple(row.values())[:6])
    found = []
    for (*recipe, name), rows in runs.items():
        task, total, batch = tasks[recipe[0]], recipe[3], recipe[4]
        sign = 1.0 if task["better"] == "higher" else -1.0
        progress, values = np.array([(float(row["progress"]), float(row["value"])) for row in rows]).T
        run = Run(float(batch or 1), progress, sign * values, float(total) if total else None)
        found.append(TableRun(task, tuple(recipe), name, run))
    return found


def bench_curves(
    folder: Path,
    *,
    shown: Sequence[float],
    most: int,
    seed: int = 0,
    schedule: bool = True,
    prior: CurvePrior | None = None,
) -> Iterator[Row]:
    """Yield at most so many rows of each question and task."""
    rng = np.random.default_rng(seed)
    for runs in grouped(read_curves(folder), lambda run: run.recipe[0]).values():
        asked = [("rest", share, run, (run,)) for share in shown for run in _chosen(runs, most, rng)]
        asked += [("another", 1.0, run, (first,)) for first, run in _chosen(list(_pairs(runs)), most, rng)]
        asked += [("longer", 1.0, run, shorter) for run, shorter in _chosen(list(_longest(runs)), most, rng)]
        for question, share, run, others in asked:
            counts = [max(_LEAST_SHOWN, round(share * len(other.run.epochs))) for other in others]
            seen = [other.run.until(count) for other, count in zip(others, counts, strict=True)]
            if question != "rest" or counts[0] < len(run.run.epochs):
                yield {"question": question, "shown": share} | _answer(run, seen, schedule=schedule, prior=prior)


def _chosen(found: Sequence[Any], most: int, rng: np.random.Generator) -> list[Any]:
    return [found[place] for place in sorted(rng.permutation(len(found))[:most])]


def _pairs(runs: Sequence[TableRun]) -> Iterator[tuple[TableRun, TableRun]]:
    """Yield the first run of each recipe with each other one."""
    for first, *others in grouped(runs, lambda run: run.recipe).values():
        yield from ((first, other) for other in others)


def _longest(runs: Sequence[TableRun]) -> Iterator[tuple[TableRun, list[TableRun]]]:
    """Yield the longest run of each batch with all shorter ones of the same variant, schedule and `run`."""
    for own in grouped(runs, lambda run: (*run.recipe[1:3], run.name)).values():
        lengths = [run.run.length or 0.0 for run in own]
        shorter = [run for run, length in zip(own, lengths, strict=True) if 0 < length < max(lengths)]
        if shorter:
            yield from ((run, shorter) for run in own if run.run.length == max(lengths))


def _answer(asked: TableRun, seen: Sequence[Run], *, schedule: bool, prior: CurvePrior | None) -> Row:
    """Return what is forecast of the last evaluation of a run, which may be the one that was seen, and what came."""
    whole, sign = asked.run, asked.sign
    known = np.concatenate([run.values for run in seen])
    target = asked.of_task("target")
    if target is not None and known.max() >= target:
        target = float(known.max() + _STEP * np.ptp(known))
    own = seen[0].values[0] == whole.values[0] and len(seen) == 1 and len(known) < len(whole.values)
    begin, horizon = float(seen[0].epochs[-1]) if own else 0.0, float(whole.epochs[-1])
    gap = float(np.median(np.diff(seen[0].epochs)))
    epochs = np.r_[np.arange(begin + gap, horizon - gap / 2, gap), horizon]
    if own:
        seen = [replace(seen[0], length=whole.length or horizon)]
    posterior = Posterior(seen, asked.facts(schedule=schedule), prior)
    paths = posterior.paths(whole.batch, epochs, length=whole.length or horizon, run=0 if own else None)
    low, mid, high = np.sort(sign * np.quantile(paths[:, -1], (0.1, 0.5, 0.9))).tolist()
    names = ("task", "variant", "schedule", "total", "global_batch")
    row: Row = dict(zip(names, (part or None for part in asked.recipe), strict=True)) | {"run": asked.name}
    row |= {"total": whole.length, "global_batch": int(whole.batch) if asked.recipe[4] else None, "horizon": horizon}
    row |= {"predicted": {"low": low, "mid": mid, "high": high}, "measured": sign * float(whole.values[-1])}
    if target is None:
        return row | {"target": None, "p_met": None, "met": None}
    met = bool(whole.values[whole.epochs > begin].max() >= target)
    return row | {"target": sign * target, "p_met": float((paths.max(axis=1) >= target).mean()), "met": met}


def curve_summaries(rows: Sequence[Row]) -> list[Row]:
    """Return, for each question, task and share shown, how many ends lie inside, and P(met) beside what came."""
    found = []
    for (question, task, shown), own in grouped(rows, lambda row: (row["question"], row["task"], row["shown"])).items():
        bounds = np.array([list(row["predicted"].values()) for row in own])
        measured = np.array([row["measured"] for row in own])
        summary: Row = {"question": question, "task": task, "shown": shown, "rows": len(own)}
        summary["inside"] = float(((bounds[:, 0] <= measured) & (measured <= bounds[:, 2])).mean())
        summary["error"] = float(np.median(np.abs(bounds[:, 1] - measured)))
        summary["width"] = float(np.median(bounds[:, 2] - bounds[:, 0]))
        if own[0]["met"] is not None:
            summary |= {name: float(np.mean([row[name] for row in own])) for name in ("p_met", "met")}
        found.append(summary)
    return found
