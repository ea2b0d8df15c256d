"""What stands still while layouts are compared: the model's shape, the machine and the training framework.

Parameters of a gated layer (Llama):  2 h^2 + 2 h kv + 3 h f;  of a plain one (GPT): 2 h^2 + 2 h kv + 2 h f.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from cotune.errors import NotFound, UsageError
from cotune.modelling.memory.architecture import Architecture

GIB = float(2**30)


@dataclass(frozen=True, slots=True)
class Transformer:
    """The shape of a decoder: widths, layers, vocabulary, and the tokens of one sequence."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq_len: int
    tied: bool = False  # one matrix for embedding and head
    gated: bool = True

    @classmethod
    def of_architecture(cls, shape: Architecture, seq_len: int) -> Transformer:
        """Return the shape of a dense decoder; one with experts is refused, no term here counts them."""
        if shape.experts > 1:
            raise UsageError(f"{shape.name} has {shape.experts} experts a layer; layouts are counted of dense models")
        return cls(
            shape.layers, shape.hidden, shape.heads, shape.kv_heads, shape.ffn, shape.vocab, seq_len,
            tied=shape.tied, gated=shape.gated,
        )  # fmt: skip

    @property
    def layer_params(self) -> int:
        head = self.hidden // self.heads
        matrices = 3 if self.gated else 2
        return 2 * self.hidden**2 + 2 * self.hidden * head * self.kv_heads + matrices * self.hidden * self.ffn

    @property
    def embedding_params(self) -> int:
        return self.vocab * self.hidden

    @property
    def params(self) -> int:
        return self.layers * self.layer_params + self.embedding_params * (1 if self.tied else 2)


@dataclass(frozen=True, slots=True)
class Machine:
    """Nodes of equal devices: operations and bytes a second of one device at their peak, as makers publish them."""

    name: str
    per_node: int
    flops: float
    bandwidth: float  # of a device's memory
    link: float  # of a device, to others in its node
    network: float  # of a device, its share of the node's
    memory: float  # bytes of a device
    narrow: float = 1.0  # how much faster products of matrices are in a shorter format; attention is not
    overlaps: bool = True  # whether it computes while the host prepares and the network gathers; a CPU does not

    @property
    def gib(self) -> float:
        return self.memory / GIB

    @classmethod
    def of_device(cls, name: str, per_node: int = 8, network: float = 50e9) -> Machine:
        """Return nodes of a device of the table; `network` in bytes a second for each device."""
        from cotune.devices import known

        spec = known(name)
        if spec is None or "bf16" not in spec.flops:
            raise NotFound(f"no device {name!r} with bf16 in the table of devices; h100 and a100 are")
        return cls(spec.name, per_node, spec.flops["bf16"], spec.bandwidth, spec.link, network, spec.memory)


@dataclass(frozen=True, slots=True)
class Framework:
    """How a training program cuts stages and stores numbers."""

    cut: Literal["greedy", "even"] = "greedy"
    gradient_bytes: int = 4  # of one parameter, as they are reduced
    state_bytes: int = 12  # of one parameter's optimiser state, the master copy included
    spare_stages: int = 1  # how many last stages may be without parameters before it refuses to start
    buckets: bool = True  # whether gradients of whole copies are reduced during the last backward pass
    fused_attention: bool = True  # whether the scores of attention never reach the device's memory
    repeats_kv: bool = True  # whether more workers than heads of keys and values can share a tensor


NANOTRON = Framework()
MEGATRON = Framework(cut="even", gradient_bytes=2, spare_stages=0, buckets=False, fused_attention=False)
FSDP = Framework(cut="even", gradient_bytes=2, spare_stages=0)
TORCHTITAN = Framework(cut="even", gradient_bytes=4, spare_stages=0)  # FSDP2, reduced in fp32
DTENSOR = Framework(cut="even", gradient_bytes=4, spare_stages=0, repeats_kv=False)  # FSDP2 and plain DTensor


@dataclass(frozen=True, slots=True)
class StageCut:
    """Layers of every stage, and which stage has the head."""

    layers: tuple[int, ...]
    head: int

    @property
    def empty(self) -> int:
        """Return how many stages come after the head's."""
        return len(self.layers) - 1 - self.head


@dataclass(frozen=True, slots=True)
class Setting:
    """A model on a machine in a framework."""

    model: Transformer
    machine: Machine
    framework: Framework = NANOTRON

    def stages(self, pp: int) -> StageCut:
        if self.framework.cut == "even":
            return even_cut(self.model.layers, pp)
        return _greedy(self.model.layers, self.model.embedding_params / self.model.layer_params, pp)

    def stage_params(self, pp: int) -> list[int]:
        """Return the parameters of every stage; embedding and head are one matrix where they are tied and together."""
        cut, model = self.stages(pp), self.model
        held = [layers * model.layer_params for layers in cut.layers]
        held[0] += model.embedding_params
        if cut.head > 0 or not model.tied:
            held[cut.head] += model.embedding_params
        return held

    def buildable(self, pp: int) -> bool:
        """Return whether every stage but the spare ones has something to train."""
        return pp <= self.model.layers and self.stages(pp).empty <= self.framework.spare_stages


@cache
def even_cut(layers: int, pp: int) -> StageCut:
    """Return stages of as equal numbers of layers as can be, the first ones the larger, the head on the last."""
    small, more = divmod(layers, pp)
    return StageCut(tuple(small + (stage < more) for stage in range(pp)), pp - 1)


@cache
def _greedy(layers: int, head_cost: float, pp: int) -> StageCut:
    """Cut as nanotron does: a stage takes blocks as long as their cumulative cost is within its share of the whole.

    Blocks are the layers (cost 1), the head (its parameters over a layer's), and casting and loss (cost 0).
    """
    total = layers + head_cost
    counts, stage, done = [0] * pp, 0, 0.0
    for block in range(layers + 1):
        done += 1.0 if block < layers else head_cost
        if done > total * (stage + 1) / pp * (1 + 1e-9) and stage < pp - 1:
            stage += 1
        if block < layers:
            counts[stage] += 1
    return StageCut(tuple(counts), stage)
