"""The peak of a micro-batch with low, mid, high and P(fits), and the largest micro-batch that fits.

    P(fits) = min over phases  P(peak <= (total - context) (1 - fragments))

low and high are the 10th and 90th percentiles; phases are off together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

from cotune.modelling.memory.activations import logits_bytes
from cotune.modelling.memory.measured import measured_forecasts
from cotune.modelling.memory.peak import CountedMemory
from cotune.modelling.memory.phases import UNCORRECTED, Correction, DeviceRoom, counted_forecasts

MOST = 4096  # sequences in a micro-batch
_TENTH = NormalDist().inv_cdf(0.9)


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """The peak of torch's allocator on one GPU, in bytes, and the probability that it fits."""

    low: float
    mid: float
    high: float
    p_fits: float | None
    phase: str
    source: str = "counted"


def estimate(
    counted: CountedMemory, micro_batch: int, room: DeviceRoom | None = None, *,
    measured: Mapping[int, float] | None = None, correction: Correction = UNCORRECTED,
) -> MemoryEstimate:  # fmt: skip
    """Return what a micro-batch takes: given the peaks of others by their size, or by counts alone."""
    if measured:
        phases = measured_forecasts(counted, micro_batch, measured, correction)
    else:
        phases = counted_forecasts(counted, micro_batch, correction)
    largest = logits_bytes(counted.model, counted.setup) * micro_batch
    highest = max(phases, key=lambda one: one.mid)
    return MemoryEstimate(
        low=max(one.at(-_TENTH) for one in phases),
        mid=highest.mid,
        high=max(one.at(_TENTH) for one in phases),
        p_fits=None if room is None else min(one.below(room, largest) for one in phases),
        phase=highest.phase,
        source="measured" if measured else "counted",
    )


def largest_batch(
    counted: CountedMemory, room: DeviceRoom, confidence: float = 0.95, *,
    measured: Mapping[int, float] | None = None, correction: Correction = UNCORRECTED,
) -> int:  # fmt: skip
    """Return the largest micro-batch whose P(fits) is at least `confidence`, 0 where there is none."""
    low, high = 0, MOST + 1
    while high - low > 1:  # P(fits) falls with the batch
        middle = (low + high) // 2
        found = estimate(counted, middle, room, measured=measured, correction=correction)
        assert found.p_fits is not None
        low, high = (middle, high) if found.p_fits >= confidence else (low, middle)
    return low
