"""ElasticFlow: steps per second of five models at a few global batches on 1 to 64 A100."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cotune.recording import TimeRow
from cotune.recording.imported import Imported, rows
from cotune.types import Device, Job

_EXAMPLES = {
    "bert": 87_599,
    "inception3": 1_281_167,
    "resnet50": 1_281_167,
    "resnet50_cifar10": 50_000,
    "vgg16": 1_281_167,
}


def recordings(source: Path) -> Iterator[Imported]:
    """Yield one recording per model, of seconds alone."""
    for model, examples in _EXAMPLES.items():
        path = source / f"a100-{model}.csv"
        if not path.is_file():
            continue
        times = []
        for row in rows(path):
            batch = int(row.pop("global_batch_size"))
            for workers, cell in row.items():
                if batch % int(workers) == 0 and float(cell or 0) > 0:
                    seconds = examples / (float(cell) * batch)
                    times.append(TimeRow(int(workers), batch // int(workers), seconds, "a100"))
        job = Job(f"elasticflow-{model}", examples=examples)
        yield Imported(job, times, devices=(Device("a100", per_node=8),))
