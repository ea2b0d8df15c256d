"""What nvidia-smi shows beside torch's peak: the context, and blocks that one phase leaves and no other takes.

    reserved = context + peak + kept x (private parts of the other phases) + rounding x (the batch's part)

An estimate of another kind than the peak: the allocator frees and retries when it is near the device's
total, so the value is bounded by it, and says little about what fits.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotune.modelling.memory.peak import CountedMemory
from cotune.modelling.memory.phases import GIB, DeviceRoom


@dataclass(frozen=True, slots=True)
class ReservedConstants:
    """Set by hand on `fms_finetune`'s rows below 74 GiB, so in-sample there."""

    context: float = 0.8 * GIB
    collectives: float = 2.0 * GIB  # NCCL, and streams that do not share blocks
    kept: float = 0.8
    rounding: float = 0.06


RESERVED = ReservedConstants()


def reserved_bytes(counted: CountedMemory, micro_batch: int, room: DeviceRoom) -> float:
    """Return about what nvidia-smi shows for a process of that config."""
    highest = counted.phase(micro_batch)
    # The first layer's backward takes the blocks of the last one's.
    apart = {"update", "loss", "last layer"} - {"last layer" if highest.name == "first layer" else highest.name}
    left = sum(counted.private(one, micro_batch) for one in counted.phases if one.name in apart and one != highest)
    sharded = counted.setup.gpus > 1
    if sharded and highest.name == "first layer":
        left = 0.15 / RESERVED.kept * highest.per_sequence * micro_batch
    context = RESERVED.context + (RESERVED.collectives if sharded else 0.0)
    batch = highest.per_sequence * micro_batch
    return min(context + highest.bytes(micro_batch) + RESERVED.kept * left + RESERVED.rounding * batch, room.total)
