"""Which GPUs this machine has, found in the driver's own folder and by its own program, without touching CUDA."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_DRIVER = Path("/proc/driver/nvidia/gpus")
_ASK_SECONDS = 10.0


def visible_gpus(env: Mapping[str, str] = os.environ) -> tuple[int, ...]:
    """Return the GPUs this process may use."""
    there = tuple(range(len(list(_DRIVER.iterdir())))) if _DRIVER.is_dir() else ()
    allowed = env.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return there
    return tuple(int(word) for word in allowed.split(",") if word.strip().isdigit() and int(word) in there)


def described_gpus() -> tuple[str, ...]:
    """Return name, memory and driver of each GPU as nvidia-smi tells them; nothing where it is not there."""
    if shutil.which("nvidia-smi") is None:
        return ()
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=_ASK_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return tuple(" ".join(line.split()) for line in lines if line.strip())
