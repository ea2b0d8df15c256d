"""Zeus: batch sizes and power limits on one GPU of four kinds, several seeds per batch.

A run's curve goes through the first epochs at which it reached one target after the
other. The power limit is a named axis; accuracy does not depend on it. ShuffleNet and ResNet were trained at one
learning rate (Adadelta), BERT at the square root of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cotune.recording import AccuracyRow, TimeRow
from cotune.recording.imported import Imported, rows
from cotune.types import Device, Job, RateScaling

_EXAMPLES = {"cifar100": 50_000, "imagenet": 1_281_167, "sentiment140": 1_600_000, "squad": 87_599}


def recordings(source: Path) -> Iterator[Imported]:
    """Yield one recording per workload and GPU."""
    for folder in sorted(path for path in source.iterdir() if path.is_dir()):
        optimizer, accuracy = _accuracy(folder / "train.csv")
        scaling = _scaling(folder / "train.csv")
        dataset = folder.name.split("-")[0]
        for path in sorted(folder.glob("power-*.csv")):
            gpu = path.stem.removeprefix("power-")
            metric = "f1" if dataset == "squad" else "accuracy"
            job = Job(f"zeus-{folder.name}-{gpu}", examples=_EXAMPLES[dataset], metric=metric, scaling=scaling)
            times = [
                TimeRow(
                    1, int(row["batch_size"]), float(row["time_per_epoch"]), gpu,
                    axes=(("power_limit", int(row["power_limit"])),),
                )
                for row in rows(path)
                if row["optimizer"] == optimizer
            ]  # fmt: skip
            yield Imported(job, times, accuracy, (Device(gpu, per_node=1),))


def _scaling(path: Path) -> RateScaling:
    """Return whether other batches were trained at other learning rates, as far as the table tells."""
    told = {(row["batch_size"], row["learning_rate"]) for row in rows(path) if row.get("learning_rate")}
    batches, rates = ({row[place] for row in told} for place in (0, 1))
    if len(batches) < 2:
        return "unknown"
    return "scaled" if len(rates) > 1 else "fixed"


def _accuracy(path: Path) -> tuple[str, list[AccuracyRow]]:
    """Return the optimizer of the runs, and for each run the best target reached by each epoch."""
    reached: dict[tuple[int, str], dict[int, float]] = {}
    optimizers = set()
    for row in rows(path):
        optimizers.add(row["optimizer"])
        if row["target_epoch"] != "nan":
            run = reached.setdefault((int(row["batch_size"]), row["run"]), {})
            epoch = int(row["target_epoch"])
            run[epoch] = max(run.get(epoch, 0.0), float(row["target_metric"]))
    (optimizer,) = optimizers
    points = [
        AccuracyRow(batch, epoch, metric, seed=run)
        for (batch, run), curve in sorted(reached.items())
        for epoch, metric in sorted(curve.items())
    ]
    return optimizer, points
