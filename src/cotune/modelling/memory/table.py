"""A folder of recorded fine-tuning runs, `finetune.csv` and `models.csv`, as models, setups and peaks.

What a row does not say is as its source ran it: checkpointing and flash attention on, full sharding
on several GPUs. Mixed precision under FSDP keeps fp32 weights; `baseline-peft-bnb` on one GPU prepares
the model for 4-bit training, which makes its hidden states fp32; table `moe` was not packed. A blank cell,
`NA` and `nan` say nothing. A model whose shape `models.csv` does not tell is guessed from its parameters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotune.errors import InvalidFile
from cotune.modelling.memory.architecture import Architecture, guessed, matched
from cotune.modelling.memory.setup import HF_2024_06, HF_2024_11, Method, TrainingSetup
from cotune.recording.imported import rows

RUNS, MODELS = "finetune.csv", "models.csv"
_METHODS: tuple[tuple[str, Method], ...] = (  # by the first of these that is in the cell
    ("gptq", "gptq"),
    ("nf4", "nf4"),
    ("qlora", "nf4"),
    ("lora", "lora"),
    ("full", "full"),
)
_NOTHING = {"", "na", "n/a", "nan", "none", "null", "-"}
_SHAPE = ("layers", "hidden", "heads", "ffn", "vocab")  # what has to be known of a model
_MOST = 1e18  # of any number in these files
_NEWER = "liger"  # the table made with later libraries


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One row: what was trained how, and what it took; None where the row does not say."""

    row: int
    table: str
    model: Architecture
    family: str
    method: str
    variant: str
    setup: TrainingSetup
    micro_batch: int
    peak_bytes: float | None
    nvidia_bytes: float | None
    failed: bool

    @property
    def group(self) -> tuple[str, str, str, str, int]:
        """Return what two runs share that differ in their batch alone."""
        return self.table, self.model.name, self.method, self.variant, self.setup.gpus


def read_runs(folder: Path) -> list[RecordedRun]:
    """Return the rows of a folder, in the file's order."""
    shapes = {line.get("model"): line for line in _lines(folder / MODELS)} if (folder / MODELS).is_file() else {}
    found = []
    for at, line in enumerate(_lines(folder / RUNS)):
        try:
            found.append(_run(at, line, shapes.get(line.get("model"), {})))
        except ValueError as error:
            raise InvalidFile(f"{folder / RUNS}, row {at}: {error}; see the columns of docs/memory.md") from None
    return found


def _lines(path: Path) -> list[dict[str, str]]:
    return [{name: cell or "" for name, cell in line.items() if name} for line in rows(path)]


def _run(at: int, line: Mapping[str, str], shape: Mapping[str, str]) -> RecordedRun:
    nvidia = _number(line, "mem_nvidia_mib")
    return RecordedRun(
        row=at,
        table=line.get("table", ""),
        model=_architecture(line, shape),
        family=line.get("family") or line["model"],
        method=line["method"],
        variant=line.get("setup", ""),
        setup=_setup(line),
        micro_batch=_count(line, "batch_per_gpu"),
        peak_bytes=_number(line, "mem_torch_peak_bytes"),
        nvidia_bytes=None if nvidia is None else nvidia * 2**20,
        failed=_said(line, "failed"),
    )


def _architecture(line: Mapping[str, str], shape: Mapping[str, str]) -> Architecture:
    if not line.get("model"):
        raise ValueError("it names no model")
    params = _number(line, "params")
    if any(_number(shape, name) is None for name in _SHAPE):
        if params is None:
            raise ValueError(f"neither {MODELS} nor params tells the size of {line['model']}")
        return guessed(line["model"], params, _number(line, "active_params"))
    layers, hidden, heads, ffn, vocab = (_count(shape, name) for name in _SHAPE)
    counted = Architecture(
        name=line["model"], layers=layers, hidden=hidden, heads=heads, kv_heads=_count(shape, "kv_heads", heads),
        ffn=ffn, vocab=vocab, tied=_said(shape, "tied"),
        experts=_count(shape, "experts", 1), experts_active=_count(shape, "experts_active", 1),
    )  # fmt: skip
    return matched(counted, params) if params else counted


def _setup(line: Mapping[str, str]) -> TrainingSetup:
    variant = line.get("setup", "")
    gpus, autocast, method = _count(line, "gpus"), line.get("amp", "").lower() not in _NOTHING, _method(line)
    in_name = re.search(r"(?:^|-)ep(\d+)", variant)
    return TrainingSetup(
        method=method,
        sequence=_count(line, "seq_len"),
        gpus=gpus,
        sharding="fsdp" if gpus > 1 else "none",
        weight_bytes=4 if line.get("dtype") == "float32" or (method == "full" and gpus > 1 and autocast) else 2,
        autocast=autocast,
        fused_kernels=_said(line, "fast_kernels", "foak" in variant),
        fused_loss=_said(line, "liger", "liger" in variant),
        fp32_residual=variant.startswith("baseline-peft-bnb") and gpus == 1,
        offload="offload" in variant,
        expert_parallel=_count(line, "expert_parallel", int(in_name[1]) if in_name else 1),
        accumulates=_count(line, "grad_accum", 1) > 1,
        lengths_vary=line.get("table") == "moe",
        path=HF_2024_11 if line.get("table") == _NEWER else HF_2024_06,
    )


def _method(line: Mapping[str, str]) -> Method:
    said = line.get("method", "")
    method = next((method for word, method in _METHODS if word in said.lower()), None)
    if method is None:
        raise ValueError(f"its method is {said!r}; full, lora, bnb_nf4_lora and gptq_lora are counted")
    return method


def _number(line: Mapping[str, str], name: str) -> float | None:
    """Return the positive number of a cell, None where it says nothing."""
    cell = line.get(name, "").strip()
    if cell.lower() in _NOTHING:
        return None
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not 0 < number < _MOST:
        raise ValueError(f"its {name} is {cell!r}, not a number above 0")
    return number


def _count(line: Mapping[str, str], name: str, otherwise: int | None = None) -> int:
    """Return the whole number of a cell."""
    number = _number(line, name)
    if number is None and otherwise is None:
        raise ValueError(f"it does not say {name}")
    return max(round(number), 1) if number is not None else otherwise or 1


def _said(line: Mapping[str, str], name: str, otherwise: bool = False) -> bool:
    """Return whether a cell says yes."""
    cell = line.get(name, "").strip().lower()
    return otherwise if cell in _NOTHING else cell in ("1", "1.0", "true", "yes")
