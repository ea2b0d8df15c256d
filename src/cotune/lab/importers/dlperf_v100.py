"""DLPerf: frameworks on up to four nodes of eight V100, by batch per GPU and GPUs.

One recording per framework and model; precision and variant are named axes. An epoch of
BERT's pre-training is taken as a million sequences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from cotune.recording import TimeRow
from cotune.recording.imported import Imported, rows
from cotune.types import Device, Job, axes_of

_EXAMPLES = {"bert-base": 1_000_000, "resnet50-v1.5": 1_281_167, "resnet50-v1b": 1_281_167}


def recordings(source: Path) -> Iterator[Imported]:
    """Yield one recording per framework and model, of seconds alone."""
    found: dict[tuple[str, str], list[TimeRow]] = defaultdict(list)
    for row in rows(source / "throughput.csv"):
        axes = axes_of({"precision": row["precision"], "variant": row["variant"]})
        workers, batch = int(row["gpus"]), int(row["batch_per_gpu"])
        seconds = _EXAMPLES[row["model"]] / float(row["samples_per_s"])
        table = found[row["framework"].lower(), row["model"]]
        table.append(TimeRow(workers, batch, seconds, "v100", int(row["nodes"]), axes=axes))
    for (framework, model), times in sorted(found.items()):
        job = Job(f"dlperf-{framework}-{model}", examples=_EXAMPLES[model])
        yield Imported(job, times, devices=(Device("v100", per_node=8),))
