"""Which GPUs this machine has, found in the driver's own folder, without touching CUDA."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_DRIVER = Path("/proc/driver/nvidia/gpus")


def visible_gpus(env: Mapping[str, str] = os.environ) -> tuple[int, ...]:
    """Return the GPUs this process may use."""
    there = tuple(range(len(list(_DRIVER.iterdir())))) if _DRIVER.is_dir() else ()
    allowed = env.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return there
    return tuple(int(word) for word in allowed.split(",") if word.strip().isdigit() and int(word) in there)
