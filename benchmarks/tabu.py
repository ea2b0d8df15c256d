"""Tabu beside grid: share of optimal plans and cost gap over 20 seeds, at several numbers of rounds.

    python benchmarks/tabu.py RECORDING...

Every fifth goal of each recording is planned from the samples of the product's own profile.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from cotune.errors import Infeasible
from cotune.lab.bench.lab import RecordedLab
from cotune.lab.bench.truth import Truth
from cotune.lab.searches.tabu import Tabu
from cotune.plan.choose import choose
from cotune.plan.searches.grid import Grid
from cotune.recording import read

SEEDS = 20
ROUNDS = (50, 200, 1000, 5000)


def main(folders: list[str]) -> None:
    for folder in folders:
        seen, judge = read(Path(folder)).halves()
        truth = Truth(judge)
        gaps: dict[int, list[float]] = {rounds: [] for rounds in ROUNDS}
        for goal in truth.goals()[::5]:
            lab = RecordedLab(seen, truth, goal)
            forecast = lab.forecaster(lab.profile(lab.space))
            place = (lab.job, goal, lab.space, lab.cluster)
            try:
                best = choose(*place, forecast=forecast, search=Grid()).forecast.cost.mid
            except Infeasible:
                continue
            for rounds in ROUNDS:
                for seed in range(SEEDS):
                    try:
                        found = choose(*place, forecast=forecast, search=Tabu(rounds=rounds), seed=seed)
                    except Infeasible:
                        gaps[rounds].append(float("inf"))
                        continue
                    gaps[rounds].append(found.forecast.cost.mid / best - 1)
        for rounds, found_gaps in gaps.items():
            share = sum(gap <= 1e-9 for gap in found_gaps) / len(found_gaps)
            middle = statistics.median(found_gaps)
            print(f"{seen.name}, {len(truth.space)} configs, {rounds} rounds: optimal {share:.0%}, gap {middle:.1%}")


if __name__ == "__main__":
    main(sys.argv[1:])
