"""How well each predictor foresees epoch seconds and accuracy that it has not seen.

    COTUNE_DATA=... python benchmarks/prediction.py [DRAWS]

Truth: Pollux's measured grids (ResNet-18, ResNet-50, YOLOv3 and BERT on 1 to 16 T4s, four to
a node) and learning curves. Time: MRE (sum |y - y'| / sum y') and MAPE in per cent on all
configs not drawn, mean over DRAWS random draws of 8, 16 and 24 samples, and the coverage of
the forecaster's 80 % intervals. Accuracy: mean absolute error in per cent of the range, each
curve left out in turn.
"""

from __future__ import annotations

import csv
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cotune import registry
from cotune.predict import AccuracyPredictor, SecondsPredictor, TooFewSamples, forecaster
from cotune.predict.predictors.auto import with_nodes
from cotune.space import Configs
from cotune.types import Cluster, Config, Device, Evaluation, Job, Sample

JOBS = {
    "cifar10": Job("cifar10", examples=50_000),
    "imagenet": Job("imagenet", examples=1_281_167),
    "yolov3": Job("yolov3", examples=16_551, metric="loss", better="lower"),
    "bert": Job("bert", examples=88_641, metric="f1"),
}
CLUSTER = Cluster((Device("t4", per_node=4),))
TIME_EXTRA = ("isotonic(reading=sliced)",)
WITHIN = 1.2816  # standard deviations on each side that hold 80 %


def placements(folder: Path, job: Job) -> list[Sample]:
    chosen: dict[tuple[int, int], tuple[tuple[int, int], float]] = {}
    with (folder / "placements.csv").open() as file:
        for row in csv.DictReader(file):
            on_nodes = [int(digit) for digit in row["placement"]]
            key, rank = (int(row["local_bsz"]), sum(on_nodes)), (len(on_nodes), max(on_nodes) - min(on_nodes))
            if key not in chosen or rank < chosen[key][0]:
                chosen[key] = rank, float(row["step_time"])
    return [
        Sample(Config.data_parallel(b, n, "t4"), 1.0, (job.examples or 1) / (b * n) * step_time)
        for (b, n), (_, step_time) in sorted(chosen.items())
    ]


def curves(folder: Path, job: Job) -> list[Sample]:
    samples = []
    for table in sorted(folder.glob("validation-*.csv"), key=lambda path: int(path.stem.partition("-")[2])):
        batch = int(table.stem.partition("-")[2])
        with table.open() as file:
            curve = tuple(
                Evaluation(float(row["iteration"]) * batch / (job.examples or 1), float(row["metric"]), 0.0)
                for row in csv.DictReader(file)
            )
        samples.append(Sample(Config.data_parallel(batch, 1, "t4"), curve[-1].epoch, curve=curve))
    return samples


def score_time(name: str, job: Job, measured: Sequence[Sample], count: int, draws: int) -> tuple[float, ...]:
    """Return MRE, MAPE, coverage and the milliseconds of a fit."""
    rows = []
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(len(measured))
        seen, unseen = [measured[place] for place in order[:count]], [measured[place] for place in order[count:]]
        truth = np.array([sample.epoch_seconds for sample in unseen])
        configs = Configs.of([sample.config for sample in unseen])
        predictor = with_nodes(registry.create("predictor", name), 4)
        began = time.process_time()
        found = predictor.fit_seconds(job, seen).predict(configs)
        spent = time.process_time() - began
        outlook = forecaster(job, seen, CLUSTER, predictor=name)(configs, 1)
        inside = np.abs(np.log(outlook.epoch_seconds / truth)) < WITHIN * outlook.spread
        off = np.abs(found - truth)
        rows.append((100 * off.sum() / truth.sum(), 100 * (off / truth).mean(), 100 * inside.mean(), 1e3 * spent))
    return tuple(statistics.fmean(column) for column in zip(*rows, strict=True))


def score_accuracy(name: str, job: Job, measured: Sequence[Sample]) -> float:
    """Return the mean error of curves left out, in per cent of the range of all."""
    span = np.ptp([point.accuracy for sample in measured for point in sample.curve])
    errors = []
    for place, sample in enumerate(measured):
        seen = [*measured[:place], *measured[place + 1 :]]
        model = registry.create("predictor", name).fit_accuracy(job, seen)
        epochs = np.array([point.epoch for point in sample.curve])
        truth = job.sign * np.array([point.accuracy for point in sample.curve])
        errors.append(np.abs(model.predict(Configs.of([sample.config]), epochs)[0] - truth).mean() / span)
    return 100 * float(np.mean(errors))


def main() -> None:
    if "COTUNE_DATA" not in os.environ:
        sys.exit("set COTUNE_DATA to the folder that holds pollux/")
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    folder = Path(os.environ["COTUNE_DATA"]) / "pollux"
    names = registry.names("predictor")
    of_time = [name for name in names if isinstance(registry.create("predictor", name), SecondsPredictor)]
    of_accuracy = [name for name in names if isinstance(registry.create("predictor", name), AccuracyPredictor)]
    print(f"epoch seconds  {'':26s}" + "".join(f"{name:>26s}" for name in JOBS))
    print(f"{'predictor':26s} {'samples':>7s} {'fit ms':>7s}" + f"{'MRE':>10s}{'MAPE':>8s}{'cover':>8s}" * len(JOBS))
    for count in (8, 16, 24):
        for name in (*of_time, *TIME_EXTRA):
            try:
                rows = [
                    score_time(name, job, placements(folder / job.name, job), count, draws) for job in JOBS.values()
                ]
            except TooFewSamples:
                continue
            spent = statistics.fmean(row[3] for row in rows)
            cells = "".join(f"{mre:10.1f}{mape:8.1f}{cover:8.0f}" for mre, mape, cover, _ in rows)
            print(f"{name:26s} {count:7d} {spent:7.1f}{cells}")
    print(
        f"\naccuracy of curves left out, mean error in % of the range\n{'predictor':26s}"
        + "".join(f"{n:>10s}" for n in JOBS)
    )
    for name in of_accuracy:
        missed = [score_accuracy(name, job, curves(folder / job.name, job)) for job in JOBS.values()]
        print(f"{name:26s}" + "".join(f"{cell:10.1f}" for cell in missed))


if __name__ == "__main__":
    main()
