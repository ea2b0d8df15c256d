"""Plans where accuracy depends on the workers too, by models that look at them and by models that do not.

    python benchmarks/accuracy_by_workers.py

Worlds of known laws, replayed by the rules of a recording: batches of 16 to 256 on 1 to 16 workers, two seeds, four
per cent of noise on the pace. A run that goes on from a probe on other workers follows the curve of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

import numpy as np

from cotune.lab.bench.lab import RecordedLab
from cotune.lab.bench.planning import judged
from cotune.lab.bench.truth import Truth
from cotune.recording import AccuracyRow, Recording, TimeRow, read, write
from cotune.types import Floats, Job

EXAMPLES, EPOCHS, SEEDS, REPEATS = 20_000, 60, 2, 3
WORKERS, BATCHES = (1, 2, 4, 8, 16), (16, 32, 64, 128, 256)
Law = Callable[[int, int, Floats], Floats]


def curve(epochs: Floats, batch: float, critical: float, best: float) -> Floats:
    return best - 0.75 * (epochs / (1 + batch / critical + 4 / batch) + 0.6) ** -0.9


WORLDS: dict[str, Law] = {
    "workers do not matter": lambda w, b, e: curve(e, b * w, 800, 0.93),
    "stale: slower": lambda w, b, e: curve(e / (1 + 0.08 * (w - 1)), b, 300, 0.93),
    "stale: slower and worse": lambda w, b, e: curve(e, b * w**0.4, 300, 0.93 - 0.012 * np.log2(w)),
    "stale: much slower, worse": lambda w, b, e: curve(e / (1 + 0.3 * (w - 1)), b, 300, 0.93 - 0.02 * np.log2(w)),
    "small normed batches": lambda w, b, e: curve(e, b * w, 800, 0.93 - 0.9 / b),
    "small normed batches, much": lambda w, b, e: curve(e, b * w, 800, 0.93 - 2.5 / b),
}


def recorded(folder: Path, law: Law) -> Recording:
    """Return a world as a recording."""
    rng = np.random.default_rng(0)
    times, points = [], []
    epochs = np.arange(1.0, EPOCHS + 1)
    for workers in WORKERS:
        for batch in BATCHES:
            network = 0.006 * (workers - 1) / workers + 0.0008 * workers * (workers > 1)
            seconds = EXAMPLES / (workers * batch) * (0.004 + 0.0002 * batch + network)
            for repeat in range(REPEATS):
                noisy = seconds * float(np.exp(0.02 * rng.normal()))
                times.append(TimeRow(workers, batch, noisy, repeat=str(repeat)))
            for seed in range(SEEDS):
                shown = law(workers, batch, epochs * np.exp(0.04 * rng.normal())) + 0.003 * rng.normal(size=EPOCHS)
                points += [
                    AccuracyRow(workers * batch, float(epoch), float(min(value, 1.0)), str(seed), workers)
                    for epoch, value in zip(epochs, shown, strict=True)
                ]
    return read(write(folder, Job("world", examples=EXAMPLES), times, points))


def main() -> None:
    print(f"{'world':28s} {'models look':>11s} {'goals':>5s} {'met':>6s} {'median':>6s} {'mean':>5s}  with profiling")
    for name, law in WORLDS.items():
        with tempfile.TemporaryDirectory() as folder:
            probes, truth = recorded(Path(folder), law).halves()
        judge = Truth(truth)
        for looks in (False, True):
            shown = replace(probes, job=replace(probes.job, workers_matter=looks))
            rows = [judged(goal, "joint", RecordedLab(shown, judge, goal))[0] for goal in judge.goals()]
            scores, whole = [row.score for row in rows], [row.score_with_profile for row in rows]
            print(
                f"{name:28s} {'yes' if looks else 'no':>11s} {len(rows):5d} {mean(row.met for row in rows):6.1%}"
                f" {median(scores):6.2f} {mean(scores):5.2f}  {median(whole):.2f}, mean {mean(whole):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
