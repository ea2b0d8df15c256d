"""MLPerf's reference convergence points: epochs to the target quality for each global batch.

The metric is `reached`: 0 before the first evaluation at the target, 1 from there on. Only
benchmarks that count in epochs, and take more than one of them, say something at whole epochs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from cotune.recording import AccuracyRow
from cotune.recording.imported import Imported, rows
from cotune.types import Job

_EXAMPLES = {"resnet": 1_281_167, "retinanet": 1_170_301, "ssd_resnet34": 117_266}


def recordings(source: Path) -> Iterator[Imported]:
    """Yield one recording per benchmark, of accuracy alone."""
    found: dict[str, list[AccuracyRow]] = defaultdict(list)
    for number, row in enumerate(rows(source / "epochs_to_converge.csv")):
        if row["benchmark"] in _EXAMPLES:
            for run, epochs in enumerate(row["epochs"].split(";")):
                found[row["benchmark"]] += _curve(int(row["batch_size"]), float(epochs), f"{number}.{run}")
    for name, accuracy in sorted(found.items()):
        job = Job(f"mlperf-rcp-{name}", examples=_EXAMPLES[name], metric="reached", scaling="scaled")
        yield Imported(job, [], accuracy)


def _curve(batch: int, epochs: float, seed: str) -> list[AccuracyRow]:
    met = math.ceil(epochs)
    before = [epoch for epoch in (0, met - 1) if epoch < met]
    return [AccuracyRow(batch, epoch, 0, seed) for epoch in dict.fromkeys(before)] + [AccuracyRow(batch, met, 1, seed)]
