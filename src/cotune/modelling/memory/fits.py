"""The largest micro-batch that fits with a given probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotune.modelling.memory.estimate import UNCORRECTED, Correction, DeviceRoom, MemoryEstimate, estimate
from cotune.modelling.memory.measured import estimate_measured
from cotune.modelling.memory.peak import CountedMemory

MOST = 4096  # sequences in a micro-batch


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """The largest micro-batch that fits, 0 where none does, and what it and the next larger take."""

    micro_batch: int
    estimate: MemoryEstimate | None
    refused: MemoryEstimate | None


def estimate_any(
    counted: CountedMemory, micro_batch: int, room: DeviceRoom | None = None, *,
    measured: Mapping[int, float] | None = None, correction: Correction = UNCORRECTED,
) -> MemoryEstimate:  # fmt: skip
    """Return what a micro-batch takes by what is known: measured peaks of others, or counts alone."""
    if measured:
        return estimate_measured(counted, micro_batch, measured, room, correction)
    return estimate(counted, micro_batch, room, correction)


def largest_batch(
    counted: CountedMemory, room: DeviceRoom, confidence: float = 0.95, *,
    measured: Mapping[int, float] | None = None, correction: Correction = UNCORRECTED,
) -> LargestBatch:  # fmt: skip
    """Return the largest micro-batch whose P(fits) is at least `confidence`."""

    def of(micro_batch: int) -> MemoryEstimate:
        return estimate_any(counted, micro_batch, room, measured=measured, correction=correction)

    low, high = 0, MOST + 1
    while high - low > 1:  # P(fits) falls with the batch
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(of(middle), confidence) else (low, middle)
    return LargestBatch(low, of(low) if low else None, of(high) if high <= MOST else None)


def _fits(one: MemoryEstimate, confidence: float) -> bool:
    assert one.p_fits is not None
    return one.p_fits >= confidence
