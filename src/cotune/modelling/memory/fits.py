"""The peak of a micro-batch with low, mid, high and P(fits), the largest that fits, and what nvidia-smi shows.

    P(fits)  = min over phases  P(peak <= (total - context) (1 - fragments))
    reserved = context + peak + kept x (private parts of the other phases) + rounding x (the batch's part)

low and high are the 10th and 90th percentiles; phases are off together. nvidia-smi shows the context too, and blocks
that one phase leaves and no other takes. That is an estimate of another kind than the peak: the allocator frees and
retries when it is near the device's total, so the value is bounded by it, and says little about what fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

from cotune.modelling.memory.activations import logits_bytes
from cotune.modelling.memory.measured import measured_forecasts
from cotune.modelling.memory.peak import CountedMemory
from cotune.modelling.memory.phases import GIB, UNCORRECTED, Correction, DeviceRoom, counted_forecasts

MOST = 4096  # sequences in a micro-batch
_TENTH = NormalDist().inv_cdf(0.9)
# Of what nvidia-smi shows; set by hand on `fms_finetune`'s rows below 74 GiB, so in-sample there.
_CONTEXT = 0.8 * GIB
_COLLECTIVES = 2.0 * GIB  # NCCL, and streams that do not share blocks
_LEFT = 0.8  # share of a phase's private blocks that no other phase takes
_LEFT_SHARDED = 0.15  # of the batch's part, where parameters are sharded
_ROUNDING = 0.06


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


def reserved_bytes(counted: CountedMemory, micro_batch: int, room: DeviceRoom) -> float:
    """Return about what nvidia-smi shows for a process of that config."""
    highest = counted.phase(micro_batch)
    # The first layer's backward takes the blocks of the last one's.
    apart = {"update", "loss", "last layer"} - {"last layer" if highest.name == "first layer" else highest.name}
    left = sum(counted.private(one, micro_batch) for one in counted.phases if one.name in apart and one != highest)
    sharded = counted.setup.gpus > 1
    if sharded and highest.name == "first layer":
        left = _LEFT_SHARDED / _LEFT * highest.per_sequence * micro_batch
    context = _CONTEXT + (_COLLECTIVES if sharded else 0.0)
    batch = highest.per_sequence * micro_batch
    return min(context + highest.bytes(micro_batch) + _LEFT * left + _ROUNDING * batch, room.total)
