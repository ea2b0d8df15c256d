"""Is P(met) of a run under way true? One seed of a recording is the probe, another is the run.

    python benchmarks/run_odds.py recordings [IMPORTED] [--posterior [PRIORS]] [--json]

Targets lie anywhere on the probe's curve, and the run may take 0.9 to 1.6 times the epochs that the probe needed. After
each of its first evaluations P(met) is held against whether the run met its target: the mean squared difference
(Brier's score), 0 at best and 0.25 for who always says a half. Out of sample but for two constants (`RunOddsPrior`).
With --posterior `predict/learning` answers, with PRIORS/SOURCE.json as its prior where there is one.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from calibration import sample_config, start_of
from cotune.errors import CotuneError
from cotune.lab.bench.tasks import recording_folders
from cotune.predict.learn import forecaster
from cotune.predict.learning import CurvePrior, Posterior, Run, first_met
from cotune.predict.learning.job_runs import facts_of, run_of
from cotune.predict.learning.prior import without
from cotune.predict.run_odds import RunClock, RunLaw
from cotune.recording import Recording, read
from cotune.space import Configs
from cotune.types import Floats, Job

RUNS, EVALUATIONS, SEEDS = 14, 8, 3  # of a recording, of a run, and of a batch at least
SPREAD = 0.15  # of ln epochs, as plans usually tell
TIMELESS = RunClock(0.0, 1.0, None)


def scores(recording: Recording, rng: np.random.Generator, prior: CurvePrior | None) -> Iterator[float]:
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
        if prior is not None:
            before = [run_of(job, sample) for sample in samples]
            yield from by_posterior(job, before, run[:length], batch=batch, target=target, prior=prior)
            continue
        try:
            learnt = forecaster(job, samples, recording.cluster)(Configs.of([sample_config(batch)]), length)
        except CotuneError:  # a probe of one evaluation tells no curve
            continue
        assert learnt.learning is not None
        yield from followed(RunLaw(learnt.learning, float(length), target, SPREAD), run[:length], target)


def by_posterior(
    job: Job, before: Sequence[Run], run: Floats, *, batch: int, target: float, prior: CurvePrior
) -> Iterator[float]:
    """Yield the same scores of the posterior, to which the run is one more run of the job."""
    known = np.flatnonzero(np.isfinite(run))
    epochs = np.asarray(known + 1.0, dtype=np.float64)
    values = run[known]
    met = bool((values >= target).any())
    for place in range(min(EVALUATIONS, len(known))):
        if values[place] >= target or known[place] + 1 >= len(run):
            return
        shown = [*before, Run(batch, epochs[: place + 1], values[: place + 1])]
        every = np.concatenate([one.values for one in shown])
        later = np.arange(epochs[place] + 1, len(run) + 1)
        paths = Posterior(shown, facts_of(job, every, shown), prior).paths(batch, later, run=len(before))
        yield (np.isfinite(first_met(paths, later, target)).mean() - met) ** 2


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("--posterior", type=Path, nargs="?", const=Path(), metavar="PRIORS", help="let it answer")
    parser.add_argument("--json", action="store_true", help="print the mean as JSON too")
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    means = []
    for folder in recording_folders(asked.recordings):
        recording = read(folder)
        prior = None if asked.posterior is None else without(asked.posterior, folder.parent.name)
        found = list(scores(recording, rng, prior)) if recording.times and recording.curves else []
        if found:
            means.append(float(np.mean(found)))
            print(f"{folder.name:45s}{means[-1]:8.4f}{len(found):6d}", flush=True)
    print(f"{'mean':45s}{np.mean(means):8.4f}")
    if asked.json:
        print(json.dumps({"brier": float(np.mean(means)), "recordings": len(means)}))


if __name__ == "__main__":
    main()
