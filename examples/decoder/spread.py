"""A decoder spread over workers: cut into stages, tensors split, parameters sharded, micro-batches scheduled.

    mesh (pp, dp, tp)     cut ─▶ parallelize_module on tp ─▶ fully_shard on dp, block by block ─▶ schedule on pp

Data parallelism is FSDP2's in every case, which unlike DistributedDataParallel goes together with tensor parallelism:

    shard 0   (dp, 1) of (replicate, shard): whole copies, gradients all-reduced
    shard 2   parameters stay gathered from forward to backward; gradients and states are sharded
    shard 3   parameters are gathered for each block, forward and backward

Refused is what torch 2.13 does wrongly without an error (zero-bubble schedules with FSDP2: gradients of some layers
are wrong) and what it has not got (ZeRO 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import host_exchange
from cotune.workloads.workers import Workers
from model import Block, DecoderStage, Shape, begin

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Layout:
    """Degrees of data, tensor and pipeline parallelism, what is sharded, and how a replica cuts its batch."""

    dp: int
    tp: int
    pp: int
    shard: int  # 0 nothing, 2 gradients and optimiser states, 3 parameters too
    micro_batch: int  # sequences
    accumulate: int  # micro-batches of a step
    recompute: int = 0  # 1: activations are computed again in the backward pass

    @property
    def workers(self) -> int:
        return self.dp * self.tp * self.pp

    @property
    def global_batch(self) -> int:
        return self.dp * self.micro_batch * self.accumulate


@dataclass(frozen=True)
class PipelineOrder:
    """An order of micro-batches in a pipeline: how many stages a worker has, and whether they lie in a V."""

    name: str
    chunks: int = 1
    folded: bool = False
    splits_backward: bool = False  # into that of inputs and that of weights, which FSDP2 does not follow

    def stages(self, place: int, pp: int) -> list[int]:
        """Return the stages of the worker at a place of the pipeline."""
        if self.folded:
            return [place, 2 * pp - 1 - place]
        return [place + chunk * pp for chunk in range(self.chunks)]


SCHEDULES = {
    "gpipe": PipelineOrder("ScheduleGPipe"),
    "1f1b": PipelineOrder("Schedule1F1B"),
    "looped_bfs": PipelineOrder("ScheduleLoopedBFS", 2),
    "interleaved_1f1b": PipelineOrder("ScheduleInterleaved1F1B", 2),
    "interleaved_zero_bubble": PipelineOrder("ScheduleInterleavedZeroBubble", 2, splits_backward=True),
    "zbv_zero_bubble": PipelineOrder("ScheduleZBVZeroBubble", 2, folded=True, splits_backward=True),
}


def require_right(layout: Layout, shape: Shape, schedule: str, workers: int) -> None:
    """Refuse a layout that cannot be built, or that torch would train wrongly without saying so."""
    order = SCHEDULES[schedule]
    wrong = {
        f"{layout.dp} x {layout.tp} x {layout.pp} workers are not the {workers} there are": layout.workers != workers,
        "torch shards gradients or parameters too, not states alone: shard 0, 2 or 3": layout.shard == 1,
        f"{shape.heads} heads ({shape.kv_heads} of keys and values) are not divisible by tp {layout.tp}": (
            shape.heads % layout.tp != 0 or shape.kv_heads % layout.tp != 0
        ),
        f"{shape.layers} layers make no {layout.pp * order.chunks} stages": layout.pp > 1
        and layout.pp * order.chunks > shape.layers,
        "zero-bubble schedules with FSDP2 train on wrong gradients without an error: use 1f1b or interleaved_1f1b": (
            order.splits_backward and layout.pp > 1 and layout.dp > 1
        ),
        f"{schedule} takes as many micro-batches as stages at least: gpipe takes fewer": (
            layout.pp > 1 and schedule != "gpipe" and layout.accumulate < layout.pp * order.chunks
        ),
    }
    said = [words for words, true in wrong.items() if true]
    if said:
        raise ValueError(f"{layout}: {'; '.join(said)}")


def usual_schedule(layout: Layout) -> str:
    """Return 1F1B, or GPipe where there are fewer micro-batches than stages, which 1F1B does not take."""
    return "1f1b" if layout.accumulate >= layout.pp else "gpipe"


@dataclass(frozen=True)
class SpreadModel:
    """What one worker has of a model: its stages, and how a step goes through them."""

    layout: Layout
    stages: Sequence[DecoderStage]
    schedule: Any  # of torch.distributed.pipelining; None without a pipeline
    loss: Loss
    replica: int  # whose share of the batch this worker takes

    def backward(self, tokens: Tensor, labels: Tensor) -> Tensor | None:
        """Add a step's gradients; return its mean loss where the model ends, None on other stages."""
        if self.schedule is None:
            return self._accumulated(tokens, labels)
        losses: list[Tensor] = []
        first = any(stage.embedding is not None for stage in self.stages)
        last = any(stage.head is not None for stage in self.stages)
        inputs = (tokens,) if first else ()
        self.schedule.step(*inputs, **({"target": labels, "losses": losses} if last else {}), return_outputs=False)
        return torch.stack(losses).mean().detach() if last else None

    def _accumulated(self, tokens: Tensor, labels: Tensor) -> Tensor:
        (model,) = self.stages
        total = torch.zeros((), device=tokens.device)
        parts = self.layout.accumulate
        for number, (inputs, wanted) in enumerate(zip(tokens.chunk(parts), labels.chunk(parts), strict=True), 1):
            if isinstance(model, FSDPModule):
                model.set_requires_gradient_sync(number == parts)  # gradients are exchanged once a step
            loss = self.loss(model(inputs), wanted) / parts
            loss.backward()
            total += loss.detach()
        return total


def parameter_groups(stage: nn.Module) -> list[dict[str, list[nn.Parameter]]]:
    """Return the parameters in one group for each mesh they lie on: an optimiser's step takes tensors of one."""
    groups: dict[object, list[nn.Parameter]] = {}
    for parameter in stage.parameters():
        mesh = parameter.device_mesh if isinstance(parameter, DTensor) else None
        groups.setdefault(mesh, []).append(parameter)
    return [{"params": group} for group in groups.values()]


def spread(shape: Shape, layout: Layout, schedule: str, *, workers: Workers, seed: int, loss: Loss) -> SpreadModel:
    """Return this worker's part of a model, with its first values."""
    order, device = SCHEDULES[schedule], workers.device
    mesh = _mesh(layout, workers) if layout.workers > 1 else None
    build = partial(_stage, shape, layout, mesh, device)
    replica = mesh["shard" if layout.shard else "replicate"].get_local_rank() if mesh is not None else 0
    if mesh is None or layout.pp == 1:
        modules, schedule_of_stages = [build(number=0, count=1)], None
    else:
        count = layout.pp * order.chunks
        numbers = order.stages(mesh["pp"].get_local_rank(), layout.pp)
        modules = [build(number=number, count=count) for number in numbers]
        group = mesh["pp"].get_group()
        stages = [
            PipelineStage(module, number, count, device, group=group)
            for module, number in zip(modules, numbers, strict=True)
        ]
        made = getattr(schedules, order.name)
        schedule_of_stages = made(stages if order.chunks > 1 else stages[0], layout.accumulate, loss_fn=loss)
    for module in modules:
        begin(module, device, seed)
    return SpreadModel(layout, modules, schedule_of_stages, loss, replica)


def backend(workers: Workers) -> str:
    """Return what exchanges tensors in groups of tensors or stages; ranks that share a GPU cannot use NCCL."""
    if workers.device.type == "cpu":
        return "gloo"
    return host_exchange.NAME if workers.gradients is None else "nccl"


def _mesh(layout: Layout, workers: Workers) -> DeviceMesh:
    """Return the workers by stage, replica, shard and part of a tensor: those of one tensor lie next to each other."""
    data = (1, layout.dp) if layout.shard else (layout.dp, 1)
    names = ("pp", "replicate", "shard", "tp")
    shape = (layout.pp, *data, layout.tp)
    backends: dict[int | str, Any] = dict.fromkeys(names, backend(workers))
    return init_device_mesh(workers.device.type, shape, mesh_dim_names=names, backend_override=backends)


def _stage(
    shape: Shape, layout: Layout, mesh: DeviceMesh | None, device: torch.device, *, number: int, count: int
) -> DecoderStage:
    """Return stage `number` of `count`, split and sharded, without values."""
    blocks = range(shape.layers * number // count, shape.layers * (number + 1) // count)
    with torch.device("meta"):
        stage = DecoderStage(
            shape, blocks, first=number == 0, last=number == count - 1, recompute=bool(layout.recompute)
        )
    if mesh is not None and layout.tp > 1:
        _split(stage, mesh["tp"])
    if mesh is not None and (layout.dp > 1 or device.type == "cuda"):  # on a GPU it also makes matrices bfloat16
        _shard(stage, mesh["replicate", "shard"], layout, device)
    return stage


def _split(stage: DecoderStage, mesh: DeviceMesh) -> None:
    """Split heads, feed-forward widths and the vocabulary over the workers of a tensor group."""
    column, row = ColwiseParallel, RowwiseParallel
    for block in stage.blocks.values():
        plan = {f"attention.{name}": column() for name in "qkv"} | {"ffn.gate": column(), "ffn.up": column()}
        parallelize_module(block, mesh, {**plan, "attention.o": row(), "ffn.down": row()})
    if stage.embedding is not None:
        parallelize_module(stage.embedding, mesh, row(input_layouts=Replicate()))
    if stage.head is not None:
        parallelize_module(stage.head, mesh, column(output_layouts=Replicate()))


def _shard(stage: DecoderStage, mesh: DeviceMesh, layout: Layout, device: torch.device) -> None:
    """Replicate or shard the parameters of a stage over its data-parallel workers, block by block."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    settings: dict[str, Any] = {"mesh": mesh, "reshard_after_forward": layout.shard == 3}
    if device.type == "cuda":
        settings["mp_policy"] = policy
    for block in stage.blocks.values():
        assert isinstance(block, Block)
        fully_shard(block, **settings)
    fully_shard(stage, **settings)
