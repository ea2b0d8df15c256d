"""Shares of the machine: which worker gets which cores or GPUs, and what other engines on it use.

Each worker takes the units that are least in use by its own engine, and among these one that no other
engine on this machine uses, in order; so the workers of one launch get neighbouring cores, several launches
and several engines keep out of each other's way, and when there are more workers than units they go round.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from cotune.errors import NotFound
from cotune.safety.private import FILE_MODE, runtime_folder


class Shares:
    """How many workers hold each unit, such as a `core`."""

    def __init__(self, kind: str, units: Sequence[int]) -> None:
        self.units = tuple(units)
        self._held: Counter[int] = Counter()
        self._claims = Claims(kind)

    def take(self, count: int) -> tuple[int, ...]:
        """Return the `count` least used units and count them as held once more."""
        use = {unit: (self._held[unit], self._claims.others(unit)) for unit in self.units}
        chosen = tuple(sorted(sorted(self.units, key=use.__getitem__)[:count]))
        self._held.update(chosen)
        for unit in chosen:
            self._claims.claim(unit)
        return chosen

    def give_back(self, units: Iterable[int]) -> None:
        """Count these units as held once less."""
        for unit in units:
            self._held[unit] -= 1
            if not self._held[unit]:
                self._claims.drop(unit)


class Claims:
    """The units of one kind, such as `core`, that this engine has workers on: a lock on a small file for each.

    The system drops a lock with the process that holds it, so nothing is left over when an engine is killed. Engines
    of other users, and of containers with a folder of their own, are not seen.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._files: dict[int, int] = {}  # of the units claimed

    def others(self, unit: int) -> bool:
        """Say whether another engine has claimed a unit; not asked of a unit of our own."""
        if unit in self._files:
            return False
        file = self._locked(unit, fcntl.LOCK_EX)
        if file is None:
            return True
        os.close(file)
        return False

    def claim(self, unit: int) -> None:
        """Let other engines see that this one uses a unit."""
        if unit not in self._files and (file := self._locked(unit, fcntl.LOCK_SH)) is not None:
            self._files[unit] = file

    def drop(self, unit: int) -> None:
        """Let other engines see that this one has left a unit."""
        with contextlib.suppress(KeyError):
            os.close(self._files.pop(unit))

    def _locked(self, unit: int, how: int) -> int | None:
        """Return the unit's file, locked; None if another engine keeps it so, or where no file can be written."""
        with contextlib.suppress(OSError):
            path = runtime_folder() / f"{self._kind}-{unit}"
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
            try:
                fcntl.flock(file, how | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
            else:
                return file
        return None


def needs_mps(taken: Sequence[int], slices: int | None) -> bool:
    """Say whether these workers' GPUs are shared, or cut into slices anyway."""
    return len(set(taken)) < len(taken) or (bool(taken) and slices is not None)


def gpu_env(
    taken: Sequence[int], rank: int, pipe: Path, slices: int | None = None, *, alone: bool = False
) -> dict[str, str]:
    """Return one rank's variables when rank i was given GPU taken[i]; none given means CPU only.

    With as many GPUs as workers every rank sees all GPUs of its launch and uses the one of its LOCAL_RANK, as under
    torchrun. With fewer, each rank sees the one it shares, as its LOCAL_RANK 0, and CUDA's multi-process service (MPS)
    gives it 100 / (slices of a GPU) per cent of the threads. A rank `alone` sees its own GPU only: among ranks on CPUs
    its LOCAL_RANK says nothing about GPUs.
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
