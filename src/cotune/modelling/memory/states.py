"""What stays on a GPU through a step: weights, optimiser states, gradients, and FSDP's gathered layers.

AdamW in bf16 keeps 2 + 4 bytes a parameter in forward and backward and 10 at its step (2 for gradients,
2 for the temporaries of foreach); fp32 weights 12 and 20. A shard has a part of each, by ZeRO's stage.
Quantized linear layers take 4 bits and the scales of their groups, and every GPU holds all scales.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotune.modelling.memory.architecture import Architecture
from cotune.modelling.memory.setup import FIXED_STATE_BYTES, STATE_BYTES, TrainingSetup

CODE_BYTES = 0.5  # of a 4-bit weight
SCALE_BYTES = {"nf4": 1 / 64 + 4 / (64 * 256), "gptq": 2.5 / 128}  # doubly quantized groups of 64; groups of 128
ADAPTER_BYTES = 12.0  # fp32 weight and two moments
ADAPTER_GRADIENT_BYTES = 4.0
HALF_BYTES = 2.0  # bf16 or fp16, in which quantized models keep what is not quantized
WORKSPACE_BYTES = 17e6  # cuBLAS, rotary tables: what a process holds beside its tensors


@dataclass(frozen=True, slots=True)
class States:
    """Bytes on one GPU that no batch changes."""

    weights: float
    optimizer: float
    gradients: float
    temporaries: float  # of the optimiser's step
    root: float  # embeddings and head, gathered for the whole step
    layer: float  # one layer, gathered while it computes
    whole_gradients: float  # summed over micro-batches, before they are reduced
    early_gradients: float  # of the head and the last matrix, when the last layer's backward runs
    workspace: float = WORKSPACE_BYTES

    @property
    def resident(self) -> float:
        """Return what forward and backward find there."""
        return self.weights + self.optimizer + self.workspace


def states(model: Architecture, setup: TrainingSetup) -> States:
    """Return the states of a setup, one GPU's part."""
    return _adapted(model, setup) if setup.adapters else _full(model, setup)


def _full(model: Architecture, setup: TrainingSetup) -> States:
    own = _own_params(model, setup, setup.weight_shards)
    updated = _own_params(model, setup, setup.state_shards)
    reduced = _own_params(model, setup, setup.gradient_shards)
    state_bytes = STATE_BYTES[setup.optimizer] * setup.weight_bytes + FIXED_STATE_BYTES.get(setup.optimizer, 0.0)
    gradients = setup.weight_bytes * reduced * (2 if setup.sharding == "ddp" else 1)  # and DDP's buckets
    root, layer = _gathered(model, setup, setup.compute_bytes)
    late = setup.compute_bytes * (model.head_params + model.matrix_params)
    return States(
        weights=0.0 if setup.offload and setup.sharding == "fsdp" else setup.weight_bytes * own,
        optimizer=0.0 if setup.offload else state_bytes * updated,
        gradients=gradients,
        temporaries=0.0 if setup.offload else setup.weight_bytes * updated,
        root=root,
        layer=layer,
        whole_gradients=setup.weight_bytes * _own_params(model, setup, 1),
        early_gradients=late,
    )


def _adapted(model: Architecture, setup: TrainingSetup) -> States:
    shards = setup.weight_shards
    adapters = model.adapter_params(setup.rank)
    outside = max(model.total_params - model.linear_params, 0.0)
    if setup.quantized:
        codes = CODE_BYTES * model.linear_params + HALF_BYTES * outside
        scales = SCALE_BYTES[setup.method] * model.linear_params
        root, layer = _gathered(model, setup, CODE_BYTES)
    else:
        codes, scales = setup.weight_bytes * model.total_params, 0.0
        root, layer = _gathered(model, setup, setup.compute_bytes)
    frozen = 0.0 if setup.offload and setup.sharding == "fsdp" else codes / shards
    gradients = ADAPTER_GRADIENT_BYTES * adapters / setup.gradient_shards
    return States(
        weights=frozen + scales + ADAPTER_GRADIENT_BYTES * adapters / shards,
        optimizer=0.0 if setup.offload else (ADAPTER_BYTES - ADAPTER_GRADIENT_BYTES) * adapters / setup.state_shards,
        gradients=gradients,
        temporaries=gradients,
        root=root,
        layer=layer,
        whole_gradients=ADAPTER_GRADIENT_BYTES * adapters,
        early_gradients=0.0,
    )


def _own_params(model: Architecture, setup: TrainingSetup, shards: int) -> float:
    """Return one GPU's parameters: experts are cut by expert parallelism alone where there is any."""
    if setup.expert_parallel <= 1:
        return model.total_params / shards
    return model.expert_params / setup.expert_parallel + (model.total_params - model.expert_params) / shards


def _gathered(model: Architecture, setup: TrainingSetup, layer_bytes: float) -> tuple[float, float]:
    if setup.sharding != "fsdp" or setup.gpus == 1:
        return 0.0, 0.0
    held = model.layer_params
    if setup.expert_parallel > 1:
        held -= model.expert_params / model.layers  # they are never gathered
    dequantized = HALF_BYTES * model.matrix_params if setup.quantized and model.experts > 1 else 0.0
    return setup.compute_bytes * model.root_params, layer_bytes * held + dequantized
