"""Do intervals hold, and is P(met) what it says?

    python benchmarks/calibration.py RECORDINGS [--seconds | --outside | --curves | --met] [--priors PRIORS] [--json]

Seconds: `gaussian` on samples of the product's own design, at 4, 8, 16, 24 and 40 of them. One row per family of
recordings: coverage of the 80 % interval and the interval score of ln seconds.

Outside: six samples of at most so many workers, for every number of workers; all configs of more are predicted.

Curves: one to four batches are trained to a random target, and every batch's epochs to it are forecast and held
against a run that was not shown. The score of a forecast F of the epochs N is that of ranked probabilities,

    sum over epochs e of (F(e) - [N <= e])^2 ln(1 + 1/e)                       the lower the better

The prior of these is PRIORS/SOURCE.json where there is one. One row per data set: recordings of the same curves are
one. With --json their mean alone.

Met: for every goal of `cotune bench planning`, after the profile of `joint`, every config of the space has
a probability, and the truth says which of its runs meet the goal: P(met) speaks of one run, so where a recording
holds several, it is their share that counts. One row per nominal probability:
configs whose probability lies around it, their mean probability, and the share that did meet the goal, each goal
weighing the same. Then the plans chosen when that confidence is asked for. Those goals ask for a quarter more time
than some config of the true frontier takes, so that their deadlines tell of the truth; a second table has deadlines
that lie anywhere between the times of the quickest config and of the median one.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from cotune.lab.bench.lab import RecordedLab
from cotune.lab.bench.planning import useful  # the very goals of the benchmark
from cotune.lab.bench.prediction import AT_LEAST_MORE, designed
from cotune.lab.bench.tasks import recording_folders
from cotune.lab.bench.truth import Truth, halves_of
from cotune.plan.assess import assess
from cotune.plan.draws import epochs_needed
from cotune.predict.learn import forecaster
from cotune.predict.predictors.posterior import Posterior
from cotune.recording import Recording, read
from cotune.recording.truth import first_meeting
from cotune.run.engines.recorded import Recorded, Replay
from cotune.space import Configs
from cotune.types import Config, Evaluation, Floats, Goal, Ints, Sample
from learning_prior import posterior_without

COUNTS = (4, 8, 16, 24, 40)
EIGHTY = 1.2816
NOMINAL = ((0.5, 0.4, 0.6), (0.8, 0.7, 0.9), (0.95, 0.9, 0.995))
STARTS = 12


def held(seen: Recording, truth: Recording, samples: Sequence[Sample], configs: Configs) -> Floats:
    """Return the coverage of the 80 % intervals of some configs, and their interval score."""
    outlook = forecaster(seen.job, samples, seen.cluster, accuracy=None)(configs, 1)
    errors = np.abs(np.log(truth.epoch_seconds(configs) / outlook.epoch_seconds))
    half = EIGHTY * outlook.spread
    return np.array([(errors <= half).mean(), (2 * half + 10 * np.maximum(errors - half, 0.0)).mean()])


def designed_and_held(folder: Path, count: int) -> Floats | None:
    recording = read(folder)
    if not recording.times or len(recording.space(with_accuracy=False)) < count + AT_LEAST_MORE:
        return None
    seen, truth = recording.halves()
    samples = designed(seen, count, 0)
    configs, known = truth.space(with_accuracy=False).configs(), {sample.config for sample in samples}
    unseen = configs.take(np.array([config not in known for config in configs], dtype=bool))
    return held(seen, truth, samples, unseen)


def family_of(name: str) -> str:
    first = name.split("-", maxsplit=1)[0]
    return {"shockwave": "gavel"}.get(first, first)


def seconds_table(folders: list[Path]) -> None:
    found = [
        (family_of(read(folder).name), count, one)
        for folder in folders
        for count in COUNTS
        if (one := designed_and_held(folder, count)) is not None
    ]
    print(f"{'family':14s}" + "".join(f"{count:>12d}" for count in COUNTS))
    for family in sorted({family for family, _, _ in found}):
        cells = []
        for count in COUNTS:
            own = [one for of, at, one in found if (of, at) == (family, count)]
            covered, score = np.mean(own, axis=0) if own else (np.nan, np.nan)
            cells.append(f"{covered:6.0%}{score:6.2f}" if own else f"{'':12s}")
        print(f"{family:14s}" + "".join(cells))


def outside_table(folders: list[Path]) -> None:
    found: dict[str, list[Floats]] = {}
    for folder in folders:
        recording = read(folder)
        if recording.times:
            found.setdefault(family_of(recording.name), []).extend(further(recording))
    for family, rows in found.items():
        if rows:
            covered, score = np.mean(rows, axis=0)
            print(f"{family:14s}{covered:7.0%}{score:7.2f}")


def further(recording: Recording) -> Iterator[Floats]:
    """Yield coverage and interval score of more workers than were measured, for each that may be added."""
    seen, truth = recording.halves()
    configs = truth.space(with_accuracy=False).configs()
    engine = Recorded(recording=seen)
    for most in np.unique(configs.workers)[:-1]:
        rows = np.flatnonzero(configs.workers <= most)
        chosen = rows[np.unique(np.linspace(0, len(rows) - 1, 6).round().astype(np.int64))]
        replays = [engine.replay(configs[int(row)], place) for place, row in enumerate(chosen)]
        samples = [replay.sample(1.0, "") for replay in replays if isinstance(replay, Replay)]
        if len(samples) > 1:
            yield held(seen, truth, samples, configs.take(np.flatnonzero(configs.workers > most)))


def share_of_runs(truth: Truth, goal: Goal, most: Ints) -> Floats:
    """Return the share of each config's recorded runs that meet a goal within so many epochs."""
    assert goal.target is not None
    curves, recipes = truth._curves
    needed = [first_meeting(runs, truth.recording.job.sign * goal.target) for runs in curves]
    allowed = np.minimum(most, (goal.deadline or np.inf) / truth.epoch_seconds)
    return np.array([(needed[recipe] <= last).mean() for recipe, last in zip(recipes, allowed, strict=True)])


def curves_table(folders: list[Path], priors: Path | None) -> None:
    for name, score in epochs_scores(folders, priors):
        print(f"{name:45s}{score:9.4f}", flush=True)


def epochs_scores(folders: list[Path], priors: Path | None) -> Iterator[tuple[str, float]]:
    """Yield each recording that has both tables with the mean score of the epochs forecast for its batches."""
    recordings = {str(one.curves): (one, folder) for folder in folders if (one := read(folder)).times and one.curves}
    for one, folder in recordings.values():
        yield one.name, float(np.mean(list(epochs_missed(one, posterior_without(folder.parent.name, priors)))))


def epochs_missed(recording: Recording, accuracy: Posterior) -> Iterator[float]:
    """Yield the score of the epochs forecast for each batch, from starts of a few."""
    job, last = recording.job, recording.last_epoch
    runs = {
        batch: job.sign * np.array([curve.at_whole_epochs(last) for curve in seeds])
        for by in recording.curves.values()
        for batch, seeds in by.items()
    }
    batches = sorted(runs)
    values = np.concatenate([one[np.isfinite(one)] for one in runs.values()])
    rng = np.random.default_rng(0)
    weights = np.log1p(1 / np.arange(1.0, last + 1))
    for start in range(STARTS):
        target = float(np.quantile(values, rng.uniform(0.2, 0.95)))
        some = rng.choice(batches, min(1 + start % 4, len(batches) - 1), replace=False)
        shown = {int(batch): int(rng.integers(len(runs[batch]))) for batch in some}
        samples = [start_of(batch, runs[batch][seed], target, job.sign) for batch, seed in shown.items()]
        forecast = forecaster(job, samples, recording.cluster, accuracy=accuracy)
        outlook = forecast(Configs.of([sample_config(batch) for batch in batches]), last)
        needed = epochs_needed(outlook, Goal(job.sign * target, max_epochs=last), job.sign)
        assert outlook.learning is not None
        needed = needed[outlook.learning.recipe]
        for row, batch in enumerate(batches):
            hidden = [run for seed, run in enumerate(runs[batch]) if shown.get(batch) != seed]
            if hidden:
                run = hidden[int(rng.integers(len(hidden)))]
                known = np.isfinite(run)
                told = (needed[row][:, None] <= np.arange(1, last + 1)).mean(axis=0)
                came = np.maximum.accumulate(np.where(known, run, -np.inf)) >= target
                yield float(((told - came) ** 2 * weights)[known.argmax() : last - known[::-1].argmax()].sum())


def sample_config(batch: int) -> Config:
    return Config.data_parallel(batch, 1)


def start_of(batch: int, run: Floats, target: float, sign: int) -> Sample:
    """Return the start of a batch that ends at the target, or where its recording does."""
    known = np.flatnonzero(np.isfinite(run))
    met = known[run[known] >= target]
    shown = known[known <= (met[0] if len(met) else known[-1])]
    curve = tuple(Evaluation(float(place + 1), float(sign * run[place]), 0.0) for place in shown)
    return Sample(
        sample_config(batch), epochs=curve[-1].epoch, epoch_seconds=1.0, accuracy=curve[-1].accuracy, curve=curve
    )


def met_table(folders: list[Path]) -> None:
    kept = {folder: halves_of(folder)[1].goals() for folder in useful(folders)[0]}
    rng = np.random.default_rng(0)
    _print_met("deadlines of the frontier", kept)
    anywhere = {folder: [anytime(halves_of(folder)[1], goal, rng) for goal in goals] for folder, goals in kept.items()}
    _print_met("deadlines anywhere", anywhere)


def anytime(truth: Truth, goal: Goal, rng: np.random.Generator) -> Goal:
    """Return a goal with another deadline: between the times of the quickest config and of the median one."""
    assert goal.target is not None
    seconds = truth.epochs_to(goal.target) * truth.epoch_seconds
    reach = seconds[np.isfinite(seconds)]
    return replace(goal, deadline=float(np.exp(rng.uniform(np.log(reach.min()), np.log(np.median(reach))))))


def _print_met(title: str, goals: Mapping[Path, Sequence[Goal]]) -> None:
    told: list[tuple[Floats, Floats]] = []
    plans: dict[float, list[tuple[float, float]]] = {nominal: [] for nominal, _, _ in NOMINAL}
    for folder, asked in goals.items():
        seen, truth = halves_of(folder)
        for goal in asked:
            lab = RecordedLab(seen, truth, goal)
            outlook = lab.forecaster(lab.profile(lab.space))(truth.configs, goal.max_epochs)
            found = assess(outlook, goal, lab.cluster, lab.job.sign)
            met = share_of_runs(truth, goal, found.epochs)
            told.append((found.probability, met))
            for nominal, chosen in plans.items():
                able = replace(found, goal=replace(goal, confidence=nominal)).feasible
                if able.any():
                    row = int(np.argmin(np.where(able, found.cost, np.inf)))
                    chosen.append((float(found.probability[row]), float(met[row])))
    print(title)
    print("nominal   configs around it: goals, mean P, met      plans at that confidence: goals, mean P, met")
    for nominal, low, high in NOMINAL:
        inside = [(p[rows].mean(), m[rows].mean()) for p, m in told if (rows := (p >= low) & (p <= high)).any()]
        chosen = plans[nominal]
        print(
            f"{nominal:7.0%}{len(inside):27d}{np.mean([p for p, _ in inside]):8.1%}"
            f"{np.mean([m for _, m in inside]):7.1%}{len(chosen):34d}"
            f"{np.mean([p for p, _ in chosen]):8.1%}{np.mean([m for _, m in chosen]):7.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("--seconds", action="store_true", help="only the intervals of seconds")
    parser.add_argument("--outside", action="store_true", help="only the intervals of seconds of more workers")
    parser.add_argument("--curves", action="store_true", help="only the epochs to a target")
    parser.add_argument("--json", action="store_true", help="only the mean of these, as JSON")
    parser.add_argument("--priors", type=Path, help="a folder of SOURCE.json, each fitted without that source")
    parser.add_argument("--met", action="store_true", help="only the probabilities")
    asked = parser.parse_args()
    folders = recording_folders(asked.recordings)
    if asked.json:
        print(json.dumps({"score": float(np.mean([score for _, score in epochs_scores(folders, asked.priors)]))}))
        return
    tables: dict[Callable[[list[Path]], None], bool] = {
        seconds_table: asked.seconds,
        outside_table: asked.outside,
        partial(curves_table, priors=asked.priors): asked.curves,
        met_table: asked.met,
    }
    for table, wanted in tables.items():
        if wanted or not any(tables.values()):
            table(folders)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
