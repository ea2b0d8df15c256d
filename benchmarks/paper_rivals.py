"""The joint paper's method, its rivals and ours in one table: goals met, cost over the oracle's, and with measuring.

    python benchmarks/paper_rivals.py [--shared FOLDER ...] [--recordings FOLDER] [--every N] [--processes 2]

One part of the table for the goals of the paper's Tables 10 and 11 on our recordings of its networks, one for all goals
of our recordings, one for each folder of imported ones, all judged as in `cotune bench planning`: cost over the
oracle's where a goal is met, 2 + what was spent where it is not, on repeats and seeds that no probe saw. The paper's
own method stands there in three readings.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import paper_numbers
from cotune.lab.bench.planning import PlanningRow, bench_planning, judged, planning_summaries
from cotune.lab.bench.tasks import recording_folders
from paper import METHODS, Workload, table

ORDER = ("oracle", "joint", "lb_bsp", "cynthia", "bayesian", "manual")


def twelve(folders: Sequence[Path]) -> list[PlanningRow]:
    """Return how every method answers the goals of Tables 10 and 11."""
    works = [Workload.of(folder) for folder in folders]
    return [
        judged(goal, name, work.lab(goal))[0]
        for work in works
        if work.paper in paper_numbers.ERRORS
        for goal in map(work.goal, work.truth.targets[-2:])
        for name in METHODS
    ]


def shown(parts: dict[str, list[PlanningRow]]) -> str:
    """Return the table: a row for each method, five numbers for each part."""
    totals = {part: {total["strategy"]: total for total in planning_summaries(rows)} for part, rows in parts.items()}
    heads = [f"{part}, {len(rows) and totals[part]['oracle']['goals']} goals: met" for part, rows in parts.items()]
    columns = [each for head in heads for each in (head, "median", "mean", "with measuring: median", "mean")]
    lines = []
    for name in (*ORDER, *(name for name in METHODS if name not in ORDER)):
        cells: list[str] = []
        for part in parts:
            total = totals[part][name]
            costs = ("median", "mean", "median_with_profile", "mean_with_profile")
            cells += [f"{total['met']:.0%}", *(f"{total[cost]:.2f}" for cost in costs)]
        lines.append((METHODS[name], *cells))
    return table(("method", *columns), lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=Path, default=Path(__file__).parents[1] / "recordings")
    parser.add_argument("--shared", type=Path, nargs="*", default=[], help="folders of imported recordings")
    parser.add_argument("--every", type=int, default=1, help="each n-th goal only")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    own = recording_folders([asked.recordings])
    places = {"recordings": own} | {folder.name: recording_folders([folder]) for folder in asked.shared}
    parts = {"twelve": twelve(own)}
    for name, folders in places.items():
        parts[name] = list(bench_planning(folders, list(METHODS), every=asked.every, processes=asked.processes).rows)
    print(shown(parts))


if __name__ == "__main__":
    main()
