"""Peak memory of a training step before it runs: counted, from one or two batches, and P(fits)."""

from __future__ import annotations

from cotune.modelling.memory.architecture import Architecture, guessed
from cotune.modelling.memory.fits import MemoryEstimate, estimate, largest_batch, reserved_bytes
from cotune.modelling.memory.peak import CountedMemory, count
from cotune.modelling.memory.phases import Correction, DeviceRoom, MeasuredPeak, device_room, learn
from cotune.modelling.memory.setup import TrainingSetup
from cotune.modelling.memory.sources import from_config, from_module, from_name, read_architecture

__all__ = [
    "Architecture", "Correction", "CountedMemory", "DeviceRoom", "MeasuredPeak",
    "MemoryEstimate", "TrainingSetup", "count", "device_room", "estimate", "from_config", "from_module", "from_name",
    "guessed", "largest_batch", "learn", "read_architecture", "reserved_bytes",
]  # fmt: skip
