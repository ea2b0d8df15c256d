"""How a model is trained, as far as memory needs it: method, precision, sharding, sequence.

`CodePath` holds what the libraries decide: how many bytes the loss holds for one logit, how many
hidden states a block keeps beside its feed-forward network. Its numbers are whole or half counts
that were read off recorded runs, not fitted by a regression; see each field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from cotune.errors import UsageError

Method = Literal["full", "lora", "nf4", "gptq"]
Sharding = Literal["none", "ddp", "zero1", "zero2", "fsdp"]
METHODS: tuple[Method, ...] = get_args(Method)
SHARDINGS: tuple[Sharding, ...] = get_args(Sharding)
STATE_BYTES = {"adamw": 2.0, "adamw8bit": 0.0, "momentum": 1.0, "sgd": 0.0, "adafactor": 0.0}  # x the weight's bytes
FIXED_STATE_BYTES = {"adamw8bit": 2.0}  # whatever the weight's type


@dataclass(frozen=True, slots=True)
class CodePath:
    """What library code keeps: (plain, with fused kernels) where a pair.

    Read off `fms_finetune` (A100 80 GB, Mistral-7B, Mixtral-8x7B, santacoder), whose slopes in the
    batch are these counts within 0.3 %; so errors on those rows are in-sample for the counts.
    """

    upcast_logits: tuple[float, float] = (14.0, 10.0)  # bytes a logit: fp32 logits, shifted copy, softmax, gradient
    upcast_tail: tuple[float, float] = (3.0, 2.0)  # hidden states beside them: last block's, its norm
    plain_logits: tuple[float, float] = (8.0, 6.0)  # a model that leaves its logits in bf16
    plain_tail: float = 5.0
    autocast_logits: tuple[float, float] = (18.0, 14.0)  # the same under autocast: bf16 and fp32 copies live together
    autocast_tail: float = 8.0
    block: float = 9.0  # norms, q, k, v, attention, residuals and two gradients, beside the feed-forward network
    unfused: float = 3.5  # fp32 copies of the norms and rotated q and k, without fused kernels
    unfused_kept: float = 5.5  # the same from forward to backward without checkpointing (torch's MemTracker)
    lora: float = 4.0  # inputs of four adapters
    uncast: float = 2.5  # fp32 adapters in a bf16 network without autocast
    plain_block: tuple[float, float] = (
        8.5,
        9.5,
    )  # of a plain network but k and v, trained in full or by adapters (MemTracker)
    plain_kept: tuple[float, float] = (9.0, 10.5)  # the same from forward to backward without checkpointing
    quantized: float = 1.5  # adapters on quantized layers, whose own inputs are not kept


HF_2024_06 = CodePath()  # transformers of June 2024, and of November
HF_2024_11 = CodePath(upcast_logits=(12.0, 8.0), upcast_tail=(3.0, 2.0), quantized=3.0)


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """One way to train: what it is to the memory of one GPU, but for the micro-batch."""

    method: Method = "full"
    sequence: int = 2048
    gpus: int = 1
    sharding: Sharding = "none"
    optimizer: str = "adamw"
    weight_bytes: int = 2  # bf16; 4: fp32, also the master weights of FSDP's mixed precision
    compute_bytes: int = 2  # of an activation; 4: fp32
    autocast: bool = False
    checkpointing: bool = True
    flash: bool = True
    fused_kernels: bool = False
    fused_loss: bool = False  # the loss never holds all logits (Liger)
    rank: int = 16
    fp32_residual: bool = False  # `prepare_model_for_kbit_training`: hidden states in fp32
    offload: bool = False  # optimiser states, and sharded weights, in the host's memory
    expert_parallel: int = 1
    accumulates: bool = False  # gradients of earlier micro-batches stand there, whole under FSDP (`no_sync`)
    lengths_vary: bool = False  # `sequence` is a mean: text is not packed
    path: CodePath = HF_2024_11

    def __post_init__(self) -> None:
        if self.optimizer not in STATE_BYTES:
            raise UsageError(f"no optimizer {self.optimizer!r} is counted; there are {', '.join(STATE_BYTES)}")
        if self.sharding == "none" and self.gpus > 1:
            raise UsageError(f"{self.gpus} GPUs need a sharding: ddp, zero1, zero2 or fsdp")

    @property
    def adapters(self) -> bool:
        return self.method != "full"

    @property
    def quantized(self) -> bool:
        return self.method in ("nf4", "gptq")

    @property
    def weight_shards(self) -> int:
        return self.gpus if self.sharding == "fsdp" else 1

    @property
    def gradient_shards(self) -> int:
        return self.gpus if self.sharding in ("fsdp", "zero2") else 1

    @property
    def state_shards(self) -> int:
        return self.gpus if self.sharding in ("fsdp", "zero2", "zero1") else 1
