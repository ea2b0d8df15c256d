"""The largest micro-batch that fits with a given probability."""

from __future__ import annotations

from dataclasses import dataclass

from cotune.modelling.memory.estimate import UNCORRECTED, Correction, DeviceRoom, MemoryEstimate, estimate
from cotune.modelling.memory.peak import CountedMemory

MOST = 4096  # sequences in a micro-batch


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """The largest micro-batch that fits, 0 where none does, and what it and the next larger take."""

    micro_batch: int
    estimate: MemoryEstimate | None
    refused: MemoryEstimate | None


def largest_batch(
    counted: CountedMemory, room: DeviceRoom, confidence: float = 0.95, correction: Correction = UNCORRECTED
) -> LargestBatch:
    """Return the largest micro-batch whose P(fits) is at least `confidence`."""
    low, high = 0, MOST + 1
    while high - low > 1:  # P(fits) falls with the batch
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(counted, middle, room, correction) >= confidence else (low, middle)
    best = estimate(counted, low, room, correction) if low else None
    return LargestBatch(low, best, estimate(counted, high, room, correction) if high <= MOST else None)


def _fits(counted: CountedMemory, micro_batch: int, room: DeviceRoom, correction: Correction) -> float:
    p_fits = estimate(counted, micro_batch, room, correction).p_fits
    assert p_fits is not None
    return p_fits
