"""How long planning takes: 8 x 241 configs (at most 50 ms) and 100,000 (at most 1 s).

    python benchmarks/planning.py [RECORDING...]

Also Tabu beside the grid on the small space: share of optimal plans and cost gap. With recordings: `cotune plan
--recording` once the program has started, all its probes and fits included (at most 0.5 s).
"""

from __future__ import annotations

import contextlib
import io
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from cotune.cli.app import app
from cotune.errors import CotuneError
from cotune.forecast import Learning, Outlook, standard_draws
from cotune.lab.bench.truth import Truth
from cotune.lab.searches.tabu import Tabu
from cotune.plan.choose import choose
from cotune.plan.searches.grid import Grid
from cotune.recording import read
from cotune.space import Axis, Configs, Space
from cotune.types import Cluster, Goal, Job

EXAMPLES = 60_000
JOB, GOAL = Job("made-up", examples=EXAMPLES), Goal(target=0.95, deadline=200)


def outlook_of(configs: Configs, max_epochs: int) -> Outlook:
    """Return a physical epoch time and a power-law learning curve: the planner's work, not the predictor's."""
    draws = standard_draws(128, 0)
    batches, recipe = np.unique(configs.global_batch, return_inverse=True)
    pace = configs.steps(EXAMPLES) * (0.002 + 1e-5 * configs.batch_size + 0.001 * (configs.workers > 1))
    epochs = np.arange(1, max_epochs + 1)
    accuracy = 1 - 0.3 * (epochs / (1 + batches[:, None] / 2000) + 0.1) ** -0.7
    words = np.full(len(configs), "interpolated", dtype=object)
    return Outlook(
        configs=configs,
        epoch_seconds=pace,
        spread=np.full(len(configs), 0.05),
        seconds_source=words,
        startup=np.full(len(configs), 0.5),
        overhead=np.full(len(configs), 0.1),
        z_time=draws,
        learning=Learning(
            recipe=recipe,
            shown=(accuracy[:, None] + 0.004 * draws[::-1, None]).astype(np.float32),
            source=words[: len(batches)],
            told=np.full(len(batches), float(max_epochs)),
        ),
    )


def space_of(workers: int, batches: int) -> Space:
    return Space((Axis("workers", tuple(range(1, workers + 1))), Axis("batch_size", tuple(range(16, 16 + batches)))))


def seconds(space: Space, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        choose(JOB, GOAL, space, Cluster(), forecast=outlook_of, search=Grid())
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def on_recording(folder: Path) -> None:
    """Plan for each target of a recording, as the command does, in this process; the first plan is not counted."""
    truth = Truth(read(folder).halves()[1])
    times, cpu = [], []
    for goal in [truth.goals()[0], *truth.goals()[:: max(1, len(truth.goals()) // 5)]]:
        words = ["plan", "--recording", str(folder), "--target", repr(goal.target), "--deadline", f"{goal.deadline}s"]
        begun, spent = time.perf_counter(), time.process_time()
        silent = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with silent[0], silent[1], contextlib.suppress(SystemExit, CotuneError):
            app([*words, "--store", ":memory:", "--json"], standalone_mode=False)
        times.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - spent)
    for what, found in (("elapsed", times[1:]), ("processor", cpu[1:])):
        print(f"plan on {folder.name}: {what} {statistics.median(found):.2f} s, at most {max(found):.2f} s")


def main() -> None:
    for folder in sys.argv[1:]:
        on_recording(Path(folder))
    if sys.argv[1:]:
        return
    small, large = space_of(8, 241), space_of(100, 1000)
    seconds(small, 1)
    print(f"plan {len(small):>7,} configs: {seconds(small, 9) * 1e3:6.1f} ms")
    print(f"plan {len(large):>7,} configs: {seconds(large, 3) * 1e3:6.1f} ms")
    helps = []
    for _ in range(5):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "cotune", "--help"], check=True, capture_output=True)
        helps.append(time.perf_counter() - begun)
    print(f"cotune --help         : {statistics.median(helps) * 1e3:6.1f} ms")
    best = choose(JOB, GOAL, small, Cluster(), forecast=outlook_of, search=Grid()).forecast.cost.mid
    for rounds in (200, 1000, 5000):
        found = [
            choose(JOB, GOAL, small, Cluster(), forecast=outlook_of, search=Tabu(rounds=rounds), seed=seed)
            for seed in range(20)
        ]
        gaps = [plan.forecast.cost.mid / best - 1 for plan in found]
        share, middle = sum(gap < 1e-9 for gap in gaps) / len(gaps), statistics.median(gaps)
        print(f"tabu {rounds:>5} rounds     : optimal for {share:4.0%} of 20 seeds, median {middle:.1%} dearer")


if __name__ == "__main__":
    main()
