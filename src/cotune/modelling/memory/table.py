"""A folder of recorded fine-tuning runs, `finetune.csv` and `models.csv`, as models, setups and peaks.

What a row does not say is as its source ran it: checkpointing and flash attention on, full sharding
on several GPUs. Mixed precision under FSDP keeps fp32 weights; `baseline-peft-bnb` on one GPU prepares
the model for 4-bit training, which makes its hidden states fp32; table `moe` was not packed.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotune.errors import InvalidFile, NotFound
from cotune.modelling.memory.architecture import Architecture, guessed, matched
from cotune.modelling.memory.setup import HF_2024_06, HF_2024_11, Method, TrainingSetup

RUNS, MODELS = "finetune.csv", "models.csv"
_METHODS: Mapping[str, Method] = {"full": "full", "lora": "lora", "bnb_nf4_lora": "nf4", "gptq_lora": "gptq"}
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
    shapes = {line["model"]: line for line in _lines(folder / MODELS)} if (folder / MODELS).is_file() else {}
    lines = _lines(folder / RUNS)
    found = []
    for at, line in enumerate(lines):
        try:
            found.append(_run(at, line, shapes.get(line["model"])))
        except (KeyError, ValueError) as error:
            raise InvalidFile(f"{folder / RUNS}, row {at}: {error!r}; see the columns of docs/memory.md") from None
    return found


def _lines(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        raise NotFound(f"no {path.name} in {path.parent}") from None


def _run(at: int, line: Mapping[str, str], shape: Mapping[str, str] | None) -> RecordedRun:
    return RecordedRun(
        row=at,
        table=line["table"],
        model=_architecture(line, shape),
        family=line["family"],
        method=line["method"],
        variant=line["setup"],
        setup=_setup(line),
        micro_batch=int(line["batch_per_gpu"]),
        peak_bytes=_number(line["mem_torch_peak_bytes"]),
        nvidia_bytes=None if not line["mem_nvidia_mib"] else float(line["mem_nvidia_mib"]) * 2**20,
        failed=line["failed"] == "1",
    )


def _architecture(line: Mapping[str, str], shape: Mapping[str, str] | None) -> Architecture:
    params = float(line["params"])
    if shape is None or not shape["layers"]:
        return guessed(line["model"], params, _number(line["active_params"]))
    layers, hidden, heads, kv_heads, ffn, vocab = (
        int(shape[key]) for key in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
    )
    experts, active = (int(shape.get(key) or 1) for key in ("experts", "experts_active"))
    counted = Architecture(
        name=line["model"], layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads, ffn=ffn, vocab=vocab,
        tied=shape["tied"] in ("1", "true", "True"), experts=experts, experts_active=active,
    )  # fmt: skip
    return matched(counted, params)


def _setup(line: Mapping[str, str]) -> TrainingSetup:
    gpus, autocast, method = int(line["gpus"]), line["amp"] != "none", _METHODS[line["method"]]
    return TrainingSetup(
        method=method,
        sequence=round(float(line["seq_len"])),
        gpus=gpus,
        sharding="fsdp" if gpus > 1 else "none",
        weight_bytes=4 if line["dtype"] == "float32" or (method == "full" and gpus > 1 and autocast) else 2,
        autocast=autocast,
        fused_kernels=line["fast_kernels"] == "1",
        fused_loss=line["liger"] == "1",
        fp32_residual=line["setup"].startswith("baseline-peft-bnb") and gpus == 1,
        expert_parallel=int(float(line["expert_parallel"] or 1)),
        accumulates=int(float(line["grad_accum"] or 1)) > 1,
        lengths_vary=line["table"] == "moe",
        path=HF_2024_11 if line["table"] == _NEWER else HF_2024_06,
    )


def _number(text: str | None) -> float | None:
    return float(text) if text else None
