"""vTrain's measured multi-node table: GPT layouts of tensor, pipeline and data parallelism.

Workers are all GPUs, `batch_size` is the global batch over them; tensor and pipeline
degrees and the micro-batch are named axes. An epoch is taken as a million sequences. The
single-node table of the same source is simulated and is never read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from cotune.recording import TimeRow
from cotune.recording.imported import Imported, rows
from cotune.types import Device, Job, axes_of

EXAMPLES = 1_000_000
_SIZES = {"3072": "3.6b", "12288": "175b"}


def recordings(source: Path) -> Iterator[Imported]:
    """Yield one recording per model, of seconds alone."""
    found: dict[str, list[TimeRow]] = defaultdict(list)
    for row in rows(source / "multi_node.csv"):
        workers, batch = int(row["gpus"]), int(row["global_batch"])
        axes = axes_of({name: int(row[name]) for name in ("tensor", "pipeline", "micro_batch")})
        seconds = float(row["iteration_ms"]) / 1000 * EXAMPLES / batch
        found[row["hidden"]].append(TimeRow(workers, batch // workers, seconds, "a100", axes=axes))
    for hidden, times in sorted(found.items()):
        job = Job(f"vtrain-gpt-{_SIZES.get(hidden, hidden)}", examples=EXAMPLES)
        yield Imported(job, times, devices=(Device("a100", per_node=8),))
