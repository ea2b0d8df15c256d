"""Rings of buffers in shared memory: how tensors travel between processes of one machine.

The sender owns the ring, writes a tensor's bytes into a free slot and tells the receiver which;
the receiver copies them out, to its device if it has one, and gives the slot back. The memory has
no name on any disk and the receiver opens it through the sender's descriptor, so nothing is left
whoever dies. CUDA is told of the memory, so that a GPU reads and writes it directly.
"""

from __future__ import annotations

import mmap
import os
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_ALIGNED = 4096


class StageRing:
    """Some slots of equal size, mapped into this process, which holds their descriptor as long as the ring."""

    def __init__(self, file: int, slots: int, slot_bytes: int, device: torch.device) -> None:
        self.slots, self.slot_bytes = slots, slot_bytes
        weakref.finalize(self, os.close, file)
        os.posix_fallocate(file, 0, slots * slot_bytes)  # else full memory would end us at the first write
        self._map = mmap.mmap(file, slots * slot_bytes)
        self._bytes = torch.frombuffer(self._map, dtype=torch.uint8)
        if device.type == "cuda":
            cudart: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
            cudart.cudaHostRegister(self._bytes.data_ptr(), self._bytes.numel(), 0)
            # Told before the memory goes: another ring may be mapped to the same place.
            weakref.finalize(self, cudart.cudaHostUnregister, self._bytes.data_ptr()).atexit = False

    def slot(self, number: int) -> Tensor:
        """Return the bytes of a slot."""
        return self._bytes[number * self.slot_bytes : (number + 1) * self.slot_bytes]


def create(slots: int, size: int, device: torch.device) -> tuple[StageRing, str]:
    """Return a ring whose slots hold `size` bytes, and the path by which another process of this machine opens it."""
    slot_bytes = -(-max(size, 1) // _ALIGNED) * _ALIGNED
    file = os.memfd_create("cotune-ring")
    ring = StageRing(file, slots, slot_bytes, device)
    # In a PID namespace /proc still knows us by the number that others see.
    return ring, f"/proc/{Path('/proc/self').readlink()}/fd/{file}"


def attach(path: str, slots: int, slot_bytes: int, device: torch.device) -> StageRing:
    """Return the ring that another process made."""
    return StageRing(os.open(path, os.O_RDWR), slots, slot_bytes, device)
