"""LLM Foundry: MPT models under FSDP on 8 to 512 GPUs of three kinds.

One recording per GPU. The micro-batch is the batch per worker; the model's size, sequence
length, precision, sharding and checkpointing are named axes. An epoch is taken as a
million sequences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from cotune.recording import TimeRow
from cotune.recording.imported import Imported, rows
from cotune.types import Device, Job, Value, axes_of

EXAMPLES = 1_000_000
_NUMBERS = ("params", "layers", "hidden", "seq_len", "activation_checkpointing")
_WORDS = ("precision", "mp_mode", "sharding")


def recordings(source: Path) -> Iterator[Imported]:
    """Yield one recording per GPU, of seconds alone."""
    found: dict[str, list[TimeRow]] = defaultdict(list)
    for row in rows(source / "throughput.csv"):
        named: dict[str, Value] = {name: int(row[name]) for name in _NUMBERS}
        seconds = float(row["step_time_s"]) * EXAMPLES / int(row["global_batch"])
        found[row["gpu"]].append(
            TimeRow(
                int(row["gpus"]),
                int(row["micro_batch"]),
                seconds,
                row["gpu"],
                accumulate=int(row["grad_accum"]),
                axes=axes_of(named | {name: row[name] for name in _WORDS}),
            )
        )
    for gpu, times in sorted(found.items()):
        job = Job(f"llm-foundry-{gpu.replace('_', '-')}", examples=EXAMPLES)
        yield Imported(job, times, devices=(Device(gpu, per_node=8),))
