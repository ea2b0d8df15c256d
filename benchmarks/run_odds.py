"""Is P(met) of a run under way true? One seed of a recording is the probe, another is the run.

    python benchmarks/run_odds.py recordings [IMPORTED] [--json]

Targets lie anywhere on the probe's curve, and the run may take 0.9 to 1.6 times the epochs that the probe needed. After
each of its first evaluations P(met) is held against whether the run met its target: the mean squared difference
(Brier's score), 0 at best and 0.25 for who always says a half. Out of sample but for two constants (`RunOddsPrior`).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calibration import sample_config, start_of
from cotune.errors import CotuneError
from cotune.lab.bench.tasks import recording_folders
from cotune.predict.learn import forecaster
from cotune.predict.run_odds import RunClock, RunLaw
from cotune.recording import Recording, read
from cotune.space import Configs
from cotune.types import Floats

RUNS, EVALUATIONS, SEEDS = 14, 8, 3  # of a recording, of a run, and of a batch at least
SPREAD = 0.15  # of ln epochs, as plans usually tell
TIMELESS = RunClock(0.0, 1.0, None)


def scores(recording: Recording, rng: np.random.Generator) -> Iterator[float]:
    """Yield the squared difference of P(met) and what came, for the first evaluations of some runs."""
    job, last = recording.job, recording.last_epoch
    runs = {
        batch: job.sign * np.array([curve.at_whole_epochs(last) for curve in seeds])
        for by in recording.curves.values()
        for batch, seeds in by.items()
        if len(seeds) >= SEEDS
    }
    for _ in range(RUNS if runs else 0):
        batch = int(rng.choice(sorted(runs)))
        probe, run = runs[batch][rng.choice(len(runs[batch]), 2, replace=False)]
        target = float(np.quantile(probe[np.isfinite(probe)], rng.uniform(0.3, 0.98)))
        others = [other for other in sorted(runs) if other != batch][:2]
        samples = [start_of(batch, probe, target, job.sign)]
        samples += [start_of(other, runs[other][0], target, job.sign) for other in others]
        length = min(last, max(2, math.ceil(len(samples[0].curve) * rng.uniform(0.9, 1.6))))
        try:
            learnt = forecaster(job, samples, recording.cluster)(Configs.of([sample_config(batch)]), length)
        except CotuneError:  # a probe of one evaluation tells no curve
            continue
        assert learnt.learning is not None
        yield from followed(RunLaw(learnt.learning, float(length), target, SPREAD), run[:length], target)


def followed(law: RunLaw, run: Floats, target: float) -> Iterator[float]:
    """Yield the score after each of a run's first evaluations, until it meets its target or ends."""
    known = np.flatnonzero(np.isfinite(run))
    met = bool((run[known] >= target).any())
    curve: list[tuple[float, float]] = []
    for place in known[:EVALUATIONS]:
        if run[place] >= target or place + 1 >= len(run):
            return
        curve.append((place + 1.0, float(run[place])))
        yield (law.believe(curve, place + 1.0).odds(TIMELESS) - met) ** 2


def main(folders: list[Path], *, as_json: bool) -> None:
    rng = np.random.default_rng(0)
    means = []
    for folder in recording_folders(folders):
        recording = read(folder)
        found = list(scores(recording, rng)) if recording.times and recording.curves else []
        if found:
            means.append(float(np.mean(found)))
            print(f"{folder.name:45s}{means[-1]:8.4f}{len(found):6d}", flush=True)
    print(f"{'mean':45s}{np.mean(means):8.4f}")
    if as_json:
        print(json.dumps({"brier": float(np.mean(means)), "recordings": len(means)}))


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:] if word != "--json"], as_json="--json" in sys.argv)
