"""Counts of one training step: operations, bytes, parameters and memory, by operator and by layer.

operations   a multiply-add counts as two; None where no formula is known
bytes        what an operator reads and writes, each tensor once
activations  what forward leaves behind for backward
peak         parameters, gradients, optimiser state and the most that lives beside them
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Phase = Literal["forward", "backward", "update"]
How = Literal["traced", "run"]
Family = Literal["matmul", "convolution", "attention", "normalise", "pool", "elementwise", "reduce", "move", "unknown"]


@dataclass(frozen=True, slots=True)
class Call:
    """Equal calls of one operator in one layer: each does `flops` operations and moves `bytes`."""

    name: str
    family: Family
    phase: Phase
    layer: str
    flops: float | None
    bytes: float
    dtype: str
    calls: int = 1


@dataclass(frozen=True, slots=True)
class LayerCounts:
    """What one layer does in a step, backward included, and what it stores."""

    name: str
    kind: str
    flops: float
    bytes: float
    parameters: int
    activation_bytes: float


@dataclass(frozen=True)
class Counts:
    """One training step of one worker."""

    model: str
    batch: int
    calls: tuple[Call, ...]
    parameters: int
    gradient_bytes: float
    input_bytes: float
    activation_bytes: float
    peak_bytes: float
    layers: tuple[LayerCounts, ...]
    how: How = "traced"
    notes: tuple[str, ...] = ()

    @cached_property
    def flops(self) -> float:
        return sum((call.flops or 0.0) * call.calls for call in self.calls)

    @cached_property
    def bytes(self) -> float:
        return sum(call.bytes * call.calls for call in self.calls)

    @cached_property
    def operators(self) -> int:
        """Return how many kernels a step launches; views of a tensor are none."""
        return sum(call.calls for call in self.calls)

    @cached_property
    def work(self) -> Mapping[str, tuple[float, float]]:
        """Return the operations and bytes of each family."""
        found: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for call in self.calls:
            flops, moved = found[call.family]
            found[call.family] = flops + (call.flops or 0.0) * call.calls, moved + call.bytes * call.calls
        return dict(found)

    @cached_property
    def mix(self) -> Mapping[str, float]:
        """Return the share of the bytes that each family of operators moves."""
        return {family: moved / (self.bytes or 1.0) for family, (_, moved) in sorted(self.work.items())}

    @cached_property
    def without_formula(self) -> Mapping[str, int]:
        """Return the operators whose operations are unknown, and how often each is called."""
        found: Counter[str] = Counter()
        for call in self.calls:
            if call.flops is None:
                found[call.name] += call.calls
        return dict(found.most_common())

    @cached_property
    def unknown_share(self) -> float:
        """Return the share of the bytes that operators without a formula move."""
        return sum(call.bytes * call.calls for call in self.calls if call.flops is None) / (self.bytes or 1.0)
