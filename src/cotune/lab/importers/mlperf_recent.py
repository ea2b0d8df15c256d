"""MLPerf Training v2.1 to v5.0: whole runs of tuned systems, time and learning curve of the same run.

One recording per task and kind of accelerator, if it ran at more than one config. Every run is a repeat of
its config's seconds and a seed of its batch's curve. Seconds per epoch are the slope between a run's first and last
evaluation, which leaves start-up out and the evaluations in.

Most runs end within one pass over their data set. An epoch is then MLPerf's interval between evaluations, so that runs
take several; steps do not divide it evenly, and an evaluation within 0.2 % of a whole one counts as there. Accelerators
that share a model can be more than the batch holds: such runs have no batch per worker, and only their curves are kept.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cotune.recording import AccuracyRow, TimeRow
from cotune.recording.imported import Imported, rows
from cotune.types import Device, Job

_NEAR = 0.002
_RUN = ("round", "benchmark", "submitter", "system", "run")
_MAKERS = re.compile(
    r"\(R\)|\b(NVIDIA|Intel|Habana|AMD|Instinct|Radeon|GeForce|CTS|DLC|HBM3e?"
    r"|AI Accelerator|Blackwell GPU|Tensor Core GPU)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Workload:
    """What is trained, and how much of its log's progress is one epoch here."""

    name: str
    metric: str
    examples: int
    epoch: float = 1
    start: float = 0
    better: Literal["higher", "lower"] = "higher"

    def epochs(self, progress: float) -> float:
        exact = (progress - self.start) / self.epoch
        return float(round(exact)) if abs(exact - round(exact)) <= _NEAR * exact else exact


_CLICKS, _NODES = 4_195_197_692, 94_605_581
_TASKS = {
    "resnet": _Workload("resnet", "accuracy", 1_281_167),
    "ssd": _Workload("retinanet", "map", 1_170_301),
    "retinanet": _Workload("retinanet", "map", 1_170_301),
    "dlrm": _Workload("dlrm", "auc", _CLICKS // 20, 0.05, start=1),
    "dlrm_dcnv2": _Workload("dlrm_dcnv2", "auc", _CLICKS // 20, 0.05),
    "gnn": _Workload("rgat", "accuracy", _NODES // 20, 0.05),
    "rgat": _Workload("rgat", "accuracy", _NODES // 20, 0.05),
    "llama2_70b_lora": _Workload("llama2_70b_lora", "loss", 384, 384, better="lower"),
    "gpt3": _Workload("gpt3", "log_perplexity", 24_576, 24_576 * 2048, better="lower"),
    "llama31_405b": _Workload("llama31_405b", "log_perplexity", 46_080, 46_080, better="lower"),
}


def recordings(source: Path) -> Iterator[Imported]:
    """Yield one recording per task and accelerator."""
    found: dict[tuple[_Workload, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows(source / "runs.csv.gz"):
        if row["benchmark"] in _TASKS and int(row["accelerators"]) > 0:
            found[_TASKS[row["benchmark"]], _device(row["accelerator"])].append(row)
    curves = _curves(source / "evaluations.csv.gz")
    for (task, device), runs in sorted(found.items(), key=lambda item: (item[0][0].name, item[0][1])):
        if len({(run["accelerators"], run["global_batch_size"]) for run in runs}) > 1:
            name = f"mlperf-recent-{task.name}-{device}"
            job = Job(name, examples=task.examples, metric=task.metric, better=task.better, scaling="scaled")
            per_node = max(int(run["accelerators"]) // int(run["nodes"]) for run in runs)
            yield Imported(job, *_tables(task, device, runs, curves), (Device(device, per_node=per_node),))


def _device(accelerator: str) -> str:
    """Return the chip's own name: `NVIDIA A100-SXM4-80GB CTS` and `NVIDIA A100-SXM-80GB` are one kind."""
    bare = re.sub(r"SXM\d", "SXM", _MAKERS.sub(" ", accelerator)).lower().replace("gaudi 2", "gaudi2")
    return "-".join(re.findall(r"[a-z0-9]+", bare))


def _curves(path: Path) -> dict[tuple[str, ...], dict[float, tuple[float, float]]]:
    """Return for each run its progress, and the seconds and the metric there."""
    curves: dict[tuple[str, ...], dict[float, tuple[float, float]]] = defaultdict(dict)
    for row in rows(path):
        curves[tuple(row[key] for key in _RUN)][float(row["progress"])] = (float(row["seconds"]), float(row["value"]))
    return curves


def _tables(
    task: _Workload,
    device: str,
    runs: list[dict[str, str]],
    curves: dict[tuple[str, ...], dict[float, tuple[float, float]]],
) -> tuple[list[TimeRow], list[AccuracyRow]]:
    times, accuracy = [], []
    for run in runs:
        key = tuple(run[part] for part in _RUN)
        points = {task.epochs(progress): told for progress, told in sorted(curves[key].items())}
        workers, batch, seed = int(run["accelerators"]), int(run["global_batch_size"]), "/".join(key)
        epochs, seconds = list(points), [told[0] for told in points.values()]
        if batch % workers == 0 and len(points) > 1 and seconds[-1] > seconds[0]:
            slope = (seconds[-1] - seconds[0]) / (epochs[-1] - epochs[0])
            times.append(TimeRow(workers, batch // workers, slope, device, repeat=seed))
        accuracy += [AccuracyRow(batch, epoch, value, seed) for epoch, (_, value) in points.items()]
    return times, accuracy
