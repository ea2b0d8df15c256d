"""What two, three, five or eight evaluations tell of later ones: do intervals of the best so far hold?

    python benchmarks/few_evaluations.py RECORDINGS... [--priors PRIORS] [--json]

One to three batches of a recording are cut after so many evaluations; the best of one of them is forecast twice, four
and eight times later, and held against another run of it where there is one. The score of an 80 % interval is

    (high - low + 10 x what lies outside) / range of all recorded values                   the lower the better

The prior is PRIORS/SOURCE.json where there is one. Every source weighs the same, every cell of it too. Bias is how far
the truth lies above the forecast's middle.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from cotune.lab.bench.tasks import grouped, recording_folders
from cotune.predict import TooFewSamples
from cotune.predict.learn import forecaster
from cotune.predict.predictors.posterior import Posterior
from cotune.recording import Recording, read
from cotune.recording.truth import RecordedCurve
from cotune.space import Configs
from cotune.types import Config, Evaluation, Sample
from learning_prior import posterior_without

SHOWN = (2, 3, 5, 8)
LATER = (2, 4, 8)
DRAWS = 6
MOST_EPOCHS = 60
JUDGES = 7
LOW, HIGH = 0.1, 0.9


Intervals = Callable[[int], tuple[float, float, float]]  # low, middle and high after an epoch


@dataclass(frozen=True)
class Judged:
    """One forecast of the best so far beside one run, all over the range of recorded values."""

    source: str
    shown: int
    later: int
    bias: float
    width: float
    below: float  # by how much the truth lies below the interval
    above: float

    @property
    def score(self) -> float:
        return self.width + 10 * (self.below + self.above)


def main() -> None:
    """Print one row for each source and number of evaluations, and the mean over sources."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("--json", action="store_true", help="print the means of each source alone, as JSON")
    parser.add_argument("--priors", type=Path, help="a folder of SOURCE.json, each fitted without that source")
    asked = parser.parse_args()
    folders = recording_folders(asked.recordings)
    with ProcessPoolExecutor(2) as pool:
        found = [one for rows in pool.map(partial(judged, priors=asked.priors), folders) for one in rows]
    cells = grouped(found, lambda one: (one.source, one.shown, one.later))
    told = [(source, *summary(rows)) for (source, _, _), rows in cells.items()]
    by_source = {
        source: np.mean([row[1:] for row in rows], axis=0) for source, rows in grouped(told, lambda row: row[0]).items()
    }
    means = [*by_source.items(), ("all", np.mean(list(by_source.values()), axis=0))]
    if asked.json:
        names = ("bias", "inside", "score")
        entries = [{"source": source} | dict(zip(names, row, strict=True)) for source, row in means]
        print(json.dumps({"summary": entries}))
        return
    for (source, shown, later), rows in sorted(cells.items()):
        bias, inside, score = summary(rows)
        print(f"{source:10} {shown} shown, {later} times later: {len(rows):5} runs, bias {bias:+.3f}, ", end="")
        print(f"inside {inside:.0%}, score {score:.2f}")
    for name, values in means:
        print(f"{name:10} bias {values[0]:+.3f}, inside {values[1]:.0%}, score {values[2]:.3f}")


def summary(rows: Sequence[Judged]) -> tuple[float, float, float]:
    """Return the median bias, the share inside the interval and the mean score."""
    inside = np.mean([one.below <= 0 and one.above <= 0 for one in rows])
    return float(np.median([one.bias for one in rows])), float(inside), float(np.mean([one.score for one in rows]))


def judged(folder: Path, priors: Path | None = None) -> list[Judged]:
    """Return all forecasts of one recording."""
    warnings.simplefilter("ignore")
    recording = read(folder)
    by_batch: dict[int, list[RecordedCurve]] = {}
    for batches in recording.curves.values():
        for batch, seeds in batches.items():
            by_batch.setdefault(batch, []).extend(seeds)
    if not by_batch or any(epoch != round(epoch) for epoch in next(iter(by_batch.values()))[0].epochs):
        return []
    rng = np.random.default_rng(0)
    accuracy = posterior_without(folder.parent.name, priors)
    return [
        one
        for _ in range(DRAWS)
        for shown in SHOWN
        for one in forecast(recording, folder.parent.name, by_batch, shown, rng=rng, accuracy=accuracy)
    ]


def forecast(
    recording: Recording,
    source: str,
    by_batch: Mapping[int, Sequence[RecordedCurve]],
    shown: int,
    *,
    rng: np.random.Generator,
    accuracy: Posterior,
) -> Iterator[Judged]:
    """Yield what a draw of batches, cut after so many evaluations, tells of the first of them."""
    chosen = [
        int(batch)
        for batch in rng.choice(sorted(by_batch), int(rng.integers(1, min(3, len(by_batch)) + 1)), replace=False)
    ]
    seeds = {batch: int(rng.integers(len(by_batch[batch]))) for batch in chosen}
    seen = {batch: by_batch[batch][seed] for batch, seed in seeds.items()}
    if any(len(curve.epochs) < 2 * shown or curve.epochs[shown - 1] > MOST_EPOCHS for curve in seen.values()):
        return
    device, sign = recording.cluster.devices[0].name, recording.job.sign
    samples = [cut(curve, Config.data_parallel(batch, 1, device), shown) for batch, curve in seen.items()]
    last = int(min(MOST_EPOCHS, *(max(curve.epochs) for curve in seen.values())))
    try:
        interval = forecast_of(recording, samples, last, accuracy)
    except TooFewSamples:
        return
    span = float(np.ptp(np.concatenate([curve.accuracy for runs in by_batch.values() for curve in runs])))
    for place, run in list(enumerate(by_batch[chosen[0]]))[:JUDGES]:
        if place == seeds[chosen[0]] and len(by_batch[chosen[0]]) > 1:
            continue
        best = dict(zip(run.epochs, np.maximum.accumulate(sign * np.array(run.accuracy)).tolist(), strict=True))
        for later in LATER:
            epoch = shown * later
            if epoch > last or epoch not in best:
                continue
            least, middle, most = interval(epoch)
            off = (best[epoch] - middle, most - least, least - best[epoch], best[epoch] - most)
            bias, width, below, above = (value / span for value in off)
            yield Judged(source, shown, later, bias, width, max(below, 0.0), max(above, 0.0))


def forecast_of(recording: Recording, samples: Sequence[Sample], last: int, accuracy: Posterior) -> Intervals:
    """Return what `cotune plan` forecasts."""
    forecast = forecaster(recording.job, samples, recording.cluster, accuracy=accuracy)
    learning = forecast(Configs.of([samples[0].config]), last).learning
    assert learning is not None

    def interval(epoch: int) -> tuple[float, float, float]:
        column = int(learning.column(0, np.array([float(epoch)]))[0])
        low, middle, high = np.quantile(learning.best[0, :, column], (LOW, 0.5, HIGH)).tolist()
        return low, middle, high

    return interval


def cut(curve: RecordedCurve, config: Config, shown: int) -> Sample:
    """Return the beginning of a recorded curve as a sample."""
    points = list(zip(curve.epochs, curve.accuracy, strict=True))[:shown]
    told = tuple(Evaluation(epoch, value, 0.0) for epoch, value in points)
    return Sample(config, points[-1][0], 1.0, points[-1][1], curve=told, seconds=1.0, id=str(config))


if __name__ == "__main__":
    main()
