"""Pollux's T4 cluster: four models, 1 to 64 GPUs on nodes of four, one learning curve per batch.

An epoch has  smallest batch x steps per row at the smallest batch  examples. Of several
placements of as many GPUs the one on the fewest nodes counts, and of those the most even. The learning rate is scaled
with the batch (AdaScale, or its square root).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from cotune.recording import AccuracyRow, TimeRow
from cotune.recording.imported import Imported, rows
from cotune.types import Device, Job

_METRICS = {"cifar10": "accuracy", "imagenet": "accuracy", "yolov3": "loss", "bert": "f1"}
_PER_NODE = 4


def recordings(source: Path) -> Iterator[Imported]:
    """Yield one recording per model."""
    for name, metric in _METRICS.items():
        folder = source / name
        if not folder.is_dir():
            continue
        curves = {int(path.stem.split("-")[1]): list(rows(path)) for path in folder.glob("validation-*.csv")}
        examples = _examples(curves)
        better: Literal["higher", "lower"] = "lower" if metric == "loss" else "higher"
        job = Job(f"pollux-{name}", examples=examples, metric=metric, better=better, scaling="scaled")
        accuracy = [
            AccuracyRow(batch, int(row["iteration"]) * batch / examples, float(row["metric"]))
            for batch in sorted(curves)
            for row in curves[batch]
        ]
        yield Imported(job, _times(folder, examples), accuracy, (Device("t4", per_node=_PER_NODE),))


def _examples(curves: dict[int, list[dict[str, str]]]) -> int:
    smallest = min(curves)
    first, last = curves[smallest][0], curves[smallest][-1]
    steps = (int(last["iteration"]) - int(first["iteration"])) / (len(curves[smallest]) - 1)
    return round(smallest * steps)


def _times(folder: Path, examples: int) -> list[TimeRow]:
    chosen: dict[int, tuple[tuple[int, int], dict[int, float]]] = {}
    for placement, workers, batch, seconds in (*_placements(folder), *_scalability(folder)):
        best, table = chosen.get(workers, (placement, {}))
        if placement < best:
            table = {}
        if placement <= best:
            chosen[workers] = (placement, table)
            table.setdefault(batch, seconds * examples / (batch * workers))
    return [
        TimeRow(workers, batch, seconds, "t4", nodes)
        for workers, ((nodes, _), table) in sorted(chosen.items())
        for batch, seconds in sorted(table.items())
    ]


def _placements(folder: Path) -> Iterator[tuple[tuple[int, int], int, int, float]]:
    """Yield ((nodes, unevenness), workers, batch, seconds per step)."""
    for row in rows(folder / "placements.csv"):
        gpus = [int(digit) for digit in row["placement"]]
        uneven = sum(count * count for count in gpus)
        yield (len(gpus), uneven), sum(gpus), int(row["local_bsz"]), float(row["step_time"])


def _scalability(folder: Path) -> Iterator[tuple[tuple[int, int], int, int, float]]:
    for row in rows(folder / "scalability.csv"):
        nodes, workers = int(row["num_nodes"]), int(row["num_replicas"])
        each, more = divmod(workers, nodes)
        uneven = (nodes - more) * each**2 + more * (each + 1) ** 2
        yield (nodes, uneven), workers, int(row["local_bsz"]), float(row["step_time"])
