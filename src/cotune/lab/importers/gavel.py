"""Gavel and Shockwave: throughput of jobs alone on 1 to 8 GPUs of one kind.

One recording per model, source and GPU, workers on as few servers as possible. Models with
one setting only (A3C, CycleGAN) have no batch to choose and are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from cotune.recording import TimeRow
from cotune.recording.imported import Imported, rows
from cotune.types import Device, Job

_EXAMPLES = {"resnet-18": 50_000, "resnet-50": 1_281_167, "lm": 59_675}


def recordings(source: Path) -> Iterator[Imported]:
    """Yield one recording per model, source and GPU, of seconds alone."""
    for model, examples in _EXAMPLES.items():
        found: dict[tuple[str, str], list[TimeRow]] = defaultdict(list)
        if not (source / f"{model}.csv").is_file():
            continue
        for row in rows(source / f"{model}.csv"):
            steps = float(row["steps_per_second"])
            if row["consolidated"] == "1" and steps > 0:  # 0 does not fit
                workers, batch = int(row["workers"]), int(row["batch_per_worker"])
                found[row["source"], row["gpu"]].append(TimeRow(workers, batch, examples / (steps * batch), row["gpu"]))
        for (origin, gpu), times in sorted(found.items()):
            job = Job(f"{origin}-{model}-{gpu}", examples=examples)
            yield Imported(job, times, devices=(Device(gpu),))
