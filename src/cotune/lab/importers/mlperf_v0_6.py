"""MLPerf Training v0.6: whole runs of tuned systems, time and accuracy of the same run.

One recording per benchmark and maker of chips. Seconds per epoch are the slope between a
run's first and last evaluation, which leaves start-up out and the evaluations in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from cotune.recording import AccuracyRow, TimeRow
from cotune.recording.imported import Imported, rows
from cotune.types import Device, Job

_EXAMPLES = {"resnet": 1_281_167, "ssd": 117_266, "transformer": 4_500_966}
_METRICS = {"resnet": "accuracy", "ssd": "map", "transformer": "bleu"}
_PER_NODE = {"v100": 16, "tpu-v3-core": 8}


def recordings(source: Path) -> Iterator[Imported]:
    """Yield one recording per benchmark and device."""
    for name, examples in _EXAMPLES.items():
        if not (source / f"{name}.csv").is_file():
            continue
        runs: dict[str, dict[tuple[str, str], list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
        for row in rows(source / f"{name}.csv"):
            if row["status"] == "success":
                runs[row["device"]][row["system"], row["run"]].append(row)
        for device, by_run in sorted(runs.items()):
            # A Transformer's batch counts sequences on one maker's chips and tokens on the other's.
            tokens = name == "transformer" and device == "v100"
            parts = examples * (30 if tokens else 1)
            job = Job(f"mlperf-{name}-{device}", examples=parts, metric=_METRICS[name], scaling="scaled")
            yield Imported(job, *_tables(by_run), (Device(device, per_node=_PER_NODE[device]),))


def _tables(by_run: dict[tuple[str, str], list[dict[str, str]]]) -> tuple[list[TimeRow], list[AccuracyRow]]:
    times, accuracy = [], []
    for (system, run), unordered in sorted(by_run.items()):
        points = sorted(unordered, key=lambda row: float(row["epoch"]))
        first, last = points[0], points[-1]
        workers, batch, seed = int(first["workers"]), int(first["global_batch"]), f"{system}/{run}"
        epochs = float(last["epoch"]) - float(first["epoch"])
        seconds = float(last["seconds"]) - float(first["seconds"])
        if epochs > 0 and seconds > 0:
            times.append(TimeRow(workers, batch // workers, seconds / epochs, first["device"], repeat=seed))
        accuracy += [
            AccuracyRow(batch, epoch, value, seed)
            for epoch, value in {float(row["epoch"]): float(row["accuracy"]) for row in points}.items()
        ]
    return times, accuracy
