"""Data sets of seconds alone: tables of steps or examples per second by workers and batch.

dlperf_v100   frameworks on up to four nodes of eight V100; precision and variant are named axes
elasticflow   five models at a few global batches on 1 to 64 A100
gavel         Gavel and Shockwave: jobs alone on 1 to 8 GPUs of one kind, on as few servers as possible; models with one
              setting only (A3C, CycleGAN) have no batch to choose and are left out
llm_foundry   MPT models under FSDP on 8 to 512 GPUs of three kinds; the micro-batch is the batch per worker, and size,
              sequence length, precision, sharding and checkpointing are named axes
vtrain        measured multi-node layouts of GPT; workers are all GPUs, `batch_size` is the global batch over them, and
              tensor and pipeline degrees and the micro-batch are named axes. The single-node table of the same source
              is simulated and is never read.

An epoch of a language model that is pre-trained is taken as a million sequences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from cotune.recording import TimeRow
from cotune.recording.imported import Imported, rows
from cotune.types import Device, Job, Value, axes_of

IMAGENET, CIFAR10, SQUAD, SEQUENCES = 1_281_167, 50_000, 87_599, 1_000_000
_DLPERF = {"bert-base": SEQUENCES, "resnet50-v1.5": IMAGENET, "resnet50-v1b": IMAGENET}
_ELASTICFLOW = {
    "bert": SQUAD,
    "inception3": IMAGENET,
    "resnet50": IMAGENET,
    "resnet50_cifar10": CIFAR10,
    "vgg16": IMAGENET,
}
_GAVEL = {"resnet-18": CIFAR10, "resnet-50": IMAGENET, "lm": 59_675}
_FSDP_NUMBERS = ("params", "layers", "hidden", "seq_len", "activation_checkpointing")
_FSDP_WORDS = ("precision", "mp_mode", "sharding")
_GPT_SIZES = {"3072": "3.6b", "12288": "175b"}

Tables = Mapping[tuple[str, int], list[TimeRow]]  # by the name of a recording and the examples of its epoch


def _recordings(tables: Tables, per_node: int | None = 8) -> Iterator[Imported]:
    for (name, examples), times in sorted(tables.items()):
        yield Imported(Job(name, examples=examples), times, devices=(Device(times[0].device, per_node=per_node),))


def dlperf_v100(source: Path) -> Iterator[Imported]:
    """Yield one recording per framework and model."""
    found: defaultdict[tuple[str, int], list[TimeRow]] = defaultdict(list)
    for row in rows(source / "throughput.csv"):
        axes = axes_of({"precision": row["precision"], "variant": row["variant"]})
        workers, batch = int(row["gpus"]), int(row["batch_per_gpu"])
        examples = _DLPERF[row["model"]]
        table = found[f"dlperf-{row['framework'].lower()}-{row['model']}", examples]
        seconds = examples / float(row["samples_per_s"])
        table.append(TimeRow(workers, batch, seconds, "v100", int(row["nodes"]), axes=axes))
    return _recordings(found)


def elasticflow(source: Path) -> Iterator[Imported]:
    """Yield one recording per model."""
    found: defaultdict[tuple[str, int], list[TimeRow]] = defaultdict(list)
    for model, examples in _ELASTICFLOW.items():
        path = source / f"a100-{model}.csv"
        for row in rows(path) if path.is_file() else ():
            batch = int(row.pop("global_batch_size"))
            for workers, cell in row.items():
                if batch % int(workers) == 0 and float(cell or 0) > 0:
                    seconds = examples / (float(cell) * batch)
                    table = found[f"elasticflow-{model}", examples]
                    table.append(TimeRow(int(workers), batch // int(workers), seconds, "a100"))
    return _recordings(found)


def gavel(source: Path) -> Iterator[Imported]:
    """Yield one recording per model, source and GPU."""
    found: defaultdict[tuple[str, int], list[TimeRow]] = defaultdict(list)
    for model, examples in _GAVEL.items():
        path = source / f"{model}.csv"
        for row in rows(path) if path.is_file() else ():
            steps = float(row["steps_per_second"])
            if row["consolidated"] == "1" and steps > 0:  # 0 does not fit
                workers, batch = int(row["workers"]), int(row["batch_per_worker"])
                table = found[f"{row['source']}-{model}-{row['gpu']}", examples]
                table.append(TimeRow(workers, batch, examples / (steps * batch), row["gpu"]))
    return _recordings(found, per_node=None)


def llm_foundry(source: Path) -> Iterator[Imported]:
    """Yield one recording per GPU."""
    found: defaultdict[tuple[str, int], list[TimeRow]] = defaultdict(list)
    for row in rows(source / "throughput.csv"):
        named: dict[str, Value] = {name: int(row[name]) for name in _FSDP_NUMBERS}
        named |= {name: row[name] for name in _FSDP_WORDS}
        seconds = float(row["step_time_s"]) * SEQUENCES / int(row["global_batch"])
        workers, batch, rounds = int(row["gpus"]), int(row["micro_batch"]), int(row["grad_accum"])
        table = found[f"llm-foundry-{row['gpu'].replace('_', '-')}", SEQUENCES]
        table.append(TimeRow(workers, batch, seconds, row["gpu"], accumulate=rounds, axes=axes_of(named)))
    return _recordings(found)


def vtrain(source: Path) -> Iterator[Imported]:
    """Yield one recording per model."""
    found: defaultdict[tuple[str, int], list[TimeRow]] = defaultdict(list)
    for row in rows(source / "multi_node.csv"):
        workers, batch = int(row["gpus"]), int(row["global_batch"])
        axes = axes_of({name: int(row[name]) for name in ("tensor", "pipeline", "micro_batch")})
        seconds = float(row["iteration_ms"]) / 1000 * SEQUENCES / batch
        table = found[f"vtrain-gpt-{_GPT_SIZES.get(row['hidden'], row['hidden'])}", SEQUENCES]
        table.append(TimeRow(workers, batch // workers, seconds, "a100", axes=axes))
    return _recordings(found)
