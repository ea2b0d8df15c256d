"""Is P(met) of a run under way true? One seed of a recording is the probe, another is the run.

    python benchmarks/run_odds.py recordings [IMPORTED] [--priors PRIORS] [--json]

Targets lie anywhere on the probe's curve, and the run may take 0.9 to 1.6 times the epochs that the probe needed. After
each of its first evaluations P(met) is held against whether the run met its target: the mean squared difference
(Brier's score), 0 at best and 0.25 for who always says a half. The prior is PRIORS/SOURCE.json where there is one.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from calibration import sample_config, start_of
from cotune.lab.bench.tasks import recording_folders
from cotune.predict.learning import CurvePrior
from cotune.predict.learning.prior import without
from cotune.predict.run_odds import RunClock, believe
from cotune.recording import Recording, read
from cotune.types import Evaluation, Floats, Job, Sample

RUNS, EVALUATIONS, SEEDS = 14, 8, 3  # of a recording, of a run, and of a batch at least
TIMELESS = RunClock(0.0, 1.0, None)


def scores(recording: Recording, rng: np.random.Generator, prior: CurvePrior) -> Iterator[float]:
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
        yield from followed(job, samples, run[:length], batch=batch, target=target, prior=prior)


def followed(
    job: Job, before: Sequence[Sample], run: Floats, *, batch: int, target: float, prior: CurvePrior
) -> Iterator[float]:
    """Yield the score after each of a run's first evaluations, until it meets its target or ends."""
    known = np.flatnonzero(np.isfinite(run))
    met = bool((run[known] >= target).any())
    curve: tuple[Evaluation, ...] = ()
    for place in known[:EVALUATIONS]:
        if run[place] >= target or place + 1 >= len(run):
            return
        curve = (*curve, Evaluation(place + 1.0, job.sign * float(run[place]), place + 1.0))
        sample = Sample(sample_config(batch), epochs=place + 1.0, curve=curve)
        belief = believe(job, before, sample, target=job.sign * target, length=float(len(run)), prior=prior)
        yield (belief.odds(TIMELESS) - met) ** 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("--priors", type=Path, help="a folder of SOURCE.json, each fitted without that source")
    parser.add_argument("--json", action="store_true", help="print the mean as JSON too")
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    means = []
    for folder in recording_folders(asked.recordings):
        recording = read(folder)
        prior = without(asked.priors, folder.parent.name)
        found = list(scores(recording, rng, prior)) if recording.times and recording.curves else []
        if found:
            means.append(float(np.mean(found)))
            print(f"{folder.name:45s}{means[-1]:8.4f}{len(found):6d}", flush=True)
    print(f"{'mean':45s}{np.mean(means):8.4f}")
    if asked.json:
        print(json.dumps({"brier": float(np.mean(means)), "recordings": len(means)}))


if __name__ == "__main__":
    main()
