"""GPUs: each worker its own, or an equal share of one by CUDA's multi-process service.

With as many GPUs as workers every rank sees all GPUs of its launch and uses the one of
its LOCAL_RANK, as under torchrun. With fewer, each rank sees the one it shares, as its
LOCAL_RANK 0, and MPS gives it 100 / (slices of a GPU) per cent of the threads.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from cotune.errors import NotFound


def needs_mps(taken: Sequence[int], slices: int | None) -> bool:
    """Say whether these workers' GPUs are shared, or cut into slices anyway."""
    return len(set(taken)) < len(taken) or (bool(taken) and slices is not None)


def gpu_env(
    taken: Sequence[int], rank: int, pipe: Path, slices: int | None = None, *, alone: bool = False
) -> dict[str, str]:
    """Return one rank's variables when rank i was given GPU taken[i]; none given means CPU only.

    A rank `alone` sees its own GPU only: among ranks on CPUs its LOCAL_RANK says nothing about GPUs.
    """
    if not taken:
        return {"CUDA_VISIBLE_DEVICES": ""}
    if not needs_mps(taken, slices) and alone:
        return {"CUDA_VISIBLE_DEVICES": str(taken[rank]), "LOCAL_RANK": "0"}
    if not needs_mps(taken, slices):
        return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, taken))}
    sharing = max(slices or 1, *(taken.count(gpu) for gpu in taken))
    return {
        "CUDA_VISIBLE_DEVICES": str(taken[rank]),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "CUDA_MPS_PIPE_DIRECTORY": str(pipe),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(100 // sharing),
    }


def mps_daemon(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command and variables of an MPS daemon of our own, which runs in the foreground."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        raise NotFound("several workers on one GPU need nvidia-cuda-mps-control (CUDA MPS), which is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    ours = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    return [control, "-f"], {**os.environ, **ours}
