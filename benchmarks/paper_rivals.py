"""The joint paper's method, its rivals and ours in one table: goals met, cost over the oracle's, and with measuring.

    python benchmarks/paper_rivals.py [--shared FOLDER ...] [--recordings FOLDER] [--every N] [--processes 2]

One part of the table for the goals of the paper's Tables 10 and 11 on our recordings of its networks, one for all goals
of our recordings, one for each folder of imported ones, all judged as in `cotune bench planning`: cost over the
oracle's where a goal is met, 2 + what was spent where it is not, on repeats and seeds that no probe saw. The paper's
own method stands there in three readings. "joint, left out" has its two constants of probing chosen for each source
(Pollux, MLPerf, our own) on each fourth goal of the *other* sources, by the score with measuring.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import paper_numbers
from cotune.lab.bench.planning import PlanningRow, bench_planning, judged, planning_summaries
from cotune.lab.bench.tasks import recording_folders
from cotune.lab.choose_constants import ConstantChoice, Values, planned_with, probing_scores, source_of
from paper import METHODS, Workload, table

ORDER = ("oracle", "joint", "joint, left out", "lb_bsp", "cynthia", "bayesian", "manual")
TITLES = METHODS | {"joint, left out": "joint, left out"}
NAMES = ("probe_weight", "least_gain")
FOURTH = 4


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


def chosen_elsewhere(folders: Sequence[Path], every: int, processes: int) -> dict[str, Values]:
    """Return for each source the constants of probing that are best on all others."""
    choice = ConstantChoice(NAMES, probing_scores(folders, FOURTH * every, processes))
    return {source: choice.best(source) for source in choice.scores}


def left_out(
    folders: Sequence[Path], constants: dict[str, Values], every: int, pool: ProcessPoolExecutor
) -> list[PlanningRow]:
    """Return the goals as joint answers them with what the other sources chose."""
    parts = [(values, [folder], every) for folder in folders if (values := constants.get(source_of(folder.name)))]
    answered = pool.map(planned_with, *zip(*parts, strict=True)) if parts else ()
    return [replace(row, strategy="joint, left out") for rows in answered for row in rows]


def shown(parts: dict[str, list[PlanningRow]]) -> str:
    """Return the table: a row for each method, five numbers for each part."""
    totals = {part: {total.strategy: total for total in planning_summaries(rows)} for part, rows in parts.items()}
    heads = [f"{part}, {len(rows) and totals[part]['oracle'].goals} goals: met" for part, rows in parts.items()]
    columns = [each for head in heads for each in (head, "median", "mean", "with measuring: median", "mean")]
    lines = []
    for name in (*ORDER, *(name for name in METHODS if name not in ORDER)):
        cells: list[str] = []
        for part in parts:
            total = totals[part].get(name)
            if total is None:
                cells += [""] * 5
                continue
            numbers = (total.median, total.mean, total.median_with_profile, total.mean_with_profile)
            cells += [f"{total.met:.0%}", *(f"{number:.2f}" for number in numbers)]
        lines.append((TITLES[name], *cells))
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
    everywhere = [folder for folders in places.values() for folder in folders]
    elsewhere = chosen_elsewhere(everywhere, asked.every, asked.processes)
    print(f"{' and '.join(NAMES)} as the other sources choose them: {elsewhere}\n", flush=True)
    parts = {"twelve": twelve(own)}
    with ProcessPoolExecutor(asked.processes) as pool:
        for name, folders in places.items():
            answered = bench_planning(folders, list(METHODS), every=asked.every, processes=asked.processes)
            parts[name] = [*answered.rows, *left_out(folders, elsewhere, asked.every, pool)]
    print(shown(parts))


if __name__ == "__main__":
    main()
