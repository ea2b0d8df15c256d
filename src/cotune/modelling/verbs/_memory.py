"""`cotune model memory`: the largest micro-batch that fits, and what each takes, before anything runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from cotune import devices
from cotune.cli.help import rare_flag
from cotune.cli.options import Json, numbers, one_of
from cotune.cli.output import emit_json, say, table, waiting
from cotune.errors import Infeasible, NotFound, UsageError, suggestion
from cotune.modelling.memory import (
    Architecture,
    CountedMemory,
    DeviceRoom,
    MemoryEstimate,
    TrainingSetup,
    count,
    device_room,
    estimate,
    from_module,
    largest_batch,
    read_architecture,
    reserved_bytes,
)
from cotune.modelling.memory.setup import METHODS, SHARDINGS
from cotune.units import gibibytes

_SPELT = {"qlora": "nf4", "bnb": "nf4", "zero3": "fsdp", "fsdp2": "fsdp"}
_PRECISIONS = {"bf16": (2, 2, False), "mixed": (4, 2, True), "fp32": (4, 4, False)}  # weight, activation, autocast


@dataclass(frozen=True, slots=True)
class _Question:
    counted: CountedMemory
    device: str
    room: DeviceRoom
    confidence: float
    measured: dict[int, float]


def memory(  # a flag for each thing that changes memory
    model: Annotated[
        str,
        typer.Argument(help="config.json or its folder, a name (mistral-7b), parameters (7e9), or file.py:callable."),
    ],
    device: Annotated[str, typer.Option("--device", help="The GPU: a100, h200, rtx4090.")],
    method: Annotated[str, typer.Option("--method", help="full, lora, nf4 (qlora) or gptq.")] = "full",
    seq: Annotated[int, typer.Option("--seq", min=1, help="Tokens of a sequence.")] = 2048,
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="GPUs that train together.")] = 1,
    batch: Annotated[str | None, typer.Option("--batch", help="Only these micro-batches: 1,2,4.")] = None,
    sharding: Annotated[
        str | None, typer.Option("--sharding", help="ddp, zero1, zero2 or fsdp (default with several GPUs).")
    ] = None,
    precision: Annotated[
        str, typer.Option("--precision", help="bf16, mixed (fp32 weights, bf16 autocast) or fp32.")
    ] = "bf16",
    optimizer: Annotated[
        str, typer.Option("--optimizer", help="adamw, adamw8bit, momentum, sgd or adafactor.")
    ] = "adamw",
    rank: Annotated[int, rare_flag("Options", "--rank", help="Rank of LoRA's matrices.", min=1)] = 16,
    checkpointing: Annotated[bool, rare_flag("Options", help="Whether blocks are recomputed in backward.")] = True,
    flash: Annotated[bool, rare_flag("Options", help="Whether attention keeps no scores (flash, SDPA).")] = True,
    fused_kernels: Annotated[
        bool, rare_flag("Options", "--fused-kernels", help="Fused norms, rotation and loss.")
    ] = False,
    fused_loss: Annotated[bool, rare_flag("Options", "--fused-loss", help="The loss holds no logits (Liger).")] = False,
    offload: Annotated[bool, rare_flag("Options", "--offload", help="Optimiser states in the host's memory.")] = False,
    accumulate: Annotated[int, rare_flag("Options", "--accumulate", help="Micro-batches before a step.", min=1)] = 1,
    measured: Annotated[
        str | None, typer.Option("--measured", help="Peaks of torch's allocator, GiB by micro-batch: 4=12.2,8=20.3.")
    ] = None,
    confidence: Annotated[
        float, rare_flag("Options", "--confidence", help="Least P(fits).", min=0.5, max=0.999)
    ] = 0.95,
    json: Json = False,
) -> None:
    """Tell the largest micro-batch that fits, and the peak memory of each, without a run."""
    shape, many = _shape(model), sharding or ("fsdp" if gpus > 1 else "none")
    weight, activation, autocast = _PRECISIONS[one_of(tuple(_PRECISIONS), precision, "--precision")]
    setup = _setup(
        method=method, sequence=seq, gpus=gpus, sharding=many, optimizer=optimizer,
        weight_bytes=weight if method == "full" else activation,
        compute_bytes=activation, autocast=autocast, rank=rank, checkpointing=checkpointing, flash=flash,
        fused_kernels=fused_kernels, fused_loss=fused_loss, offload=offload, accumulates=accumulate > 1,
    )  # fmt: skip
    question = _Question(count(shape, setup), *_room(device, gpus), confidence, _measured(measured))
    largest, rows = _answer(question, batch)
    if json:
        emit_json("model.memory", _document(question, largest, rows))
        return
    _show(question, largest, rows)


def _shape(model: str) -> Architecture:
    if ":" not in model:
        return read_architecture(model)
    with waiting("loading torch"):
        import torch

        from cotune.modelling.workloads.named import find
    built = find(model, ("int2:8",)).build
    with torch.device("meta"):
        return from_module(built(), model)


def _setup(**given: Any) -> TrainingSetup:
    for field, known in (("method", METHODS), ("sharding", SHARDINGS)):
        given[field] = one_of(known, _SPELT.get(given[field], given[field]), f"--{field}")
    return TrainingSetup(**given)


def _room(device: str, gpus: int) -> tuple[str, DeviceRoom]:
    spec = devices.known(device)
    if spec is None or spec.kind != "gpu":
        names = [name for name, one in devices.table().items() if one.kind == "gpu"]
        raise NotFound(f"no GPU {device!r} is known{suggestion(device, names)}; there are {', '.join(names)}")
    return spec.name, device_room(spec, gpus)


def _measured(text: str | None) -> dict[int, float]:
    try:
        pairs = [part.split("=") for part in text.split(",")] if text else []
        return {int(batch): float(gib) * 2**30 for batch, gib in pairs}
    except ValueError:
        raise UsageError(f"cannot read --measured {text!r}; write --measured 4=12.2,8=20.3") from None


def _answer(asked: _Question, batch: str | None) -> tuple[int, dict[int, MemoryEstimate]]:
    counted = asked.counted
    largest = largest_batch(counted, asked.room, asked.confidence, measured=asked.measured)
    if batch is not None:
        sizes = sorted({*numbers(int, batch, "--batch 1,2,4")})
        if sizes[0] < 1:
            raise UsageError("a micro-batch has at least one sequence")
    elif largest == 0:
        needed, there = counted.peak(1), asked.room.usable
        raise Infeasible(
            f"not one sequence of {counted.setup.sequence} tokens fits {asked.device}: {counted.model.name} takes "
            f"about {needed / 2**30:.1f} GiB of {there / 2**30:.1f}, most in its {counted.phase(1).name} phase. Shard "
            "over more GPUs, train adapters (lora, nf4), or take shorter sequences.",
            constraint="memory", by=needed - there, unit="bytes",
        )  # fmt: skip
    else:
        powers = [2**power for power in range(13) if 2**power <= 2 * largest]
        sizes = sorted({*powers, largest, largest + 1})
    return largest, {size: estimate(counted, size, asked.room, measured=asked.measured) for size in sizes}


def _document(asked: _Question, largest: int, rows: dict[int, MemoryEstimate]) -> dict[str, Any]:
    counted, model = asked.counted, asked.counted.model
    source = "extrapolated" if asked.measured or model.known else "assumed"
    return {
        "model": {"name": model.name, "params": model.total_params, "known": model.known},
        "device": asked.device,
        "device_bytes": asked.room.total,
        "usable_bytes": asked.room.usable,
        "confidence": asked.confidence,
        "largest_batch": largest,
        "states": asdict(counted.states),
        "rows": [
            {
                "micro_batch": size,
                "peak_bytes": {"low": one.low, "mid": one.mid, "high": one.high, "source": source},
                "p_fits": one.p_fits,
                "phase": one.phase,
                "nvidia_bytes": reserved_bytes(counted, size, asked.room),
            }
            for size, one in rows.items()
        ],
    }


def _show(asked: _Question, largest: int, rows: dict[int, MemoryEstimate]) -> None:
    model, held = asked.counted.model, asked.counted.states
    guess = "" if model.known else ", its shape guessed from its parameters"
    say(f"model     {model.name}: {model.total_params / 1e9:.2f}e9 parameters{guess}")
    say(f"device    {asked.device}: {gibibytes(asked.room.usable)} usable of {gibibytes(asked.room.total)}")
    say(
        f"states    weights {gibibytes(held.weights)}, optimiser {gibibytes(held.optimizer)}, "
        f"gradients {gibibytes(held.gradients)} on each GPU"
    )
    say(f"largest   micro-batch {largest} fits with P >= {asked.confidence:g}")
    say()
    lines = [
        (size, _in_gib(one), "" if one.p_fits is None else f"{one.p_fits:.2f}", one.phase) for size, one in rows.items()
    ]
    basis = "after measured batches" if asked.measured else "counted, nothing was run"
    table(("micro-batch", "peak, GiB", "P(fits)", "made by"), lines, title=f"torch's peak on one GPU: {basis}")


def _in_gib(one: MemoryEstimate) -> str:
    low, mid, high = (value / 2**30 for value in (one.low, one.mid, one.high))
    return f"{mid:.1f} ({low:.1f}..{high:.1f})"
