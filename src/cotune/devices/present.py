"""The machine at hand: which GPUs it has, and what was measured of it.

GPUs are found in the driver's own folder and by its own program, without touching CUDA. Calibrations are in the work
folder of a project, one file per host and kind of device; a CPU's also says how many cores one worker had.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from cotune.errors import InvalidFile

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


@dataclass(frozen=True, slots=True)
class Calibration:
    """The measured rates of one worker's device: per second, and bytes of memory."""

    name: str
    kind: Literal["cpu", "gpu"]
    threads: int
    product: Mapping[str, float]
    convolution: Mapping[str, float]
    bandwidth: float
    cache_bandwidth: float
    dispatch: float
    memory: float
    torch: str
    measured: str
    step: float = 0.0  # seconds of a step beside its operators; older files do not tell


def keep(calibration: Calibration, folder: Path) -> Path:
    """Write a calibration into a work folder; return the file."""
    path = _file(folder, calibration.kind, calibration.threads)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(calibration), indent=1) + "\n", encoding="utf-8")
    return path


def kept(folder: Path, kind: Literal["cpu", "gpu"], threads: int = 1) -> Calibration | None:
    """Return what was measured of this machine before, or None."""
    path = _file(folder, kind, threads)
    if not path.is_file():
        return None
    try:
        return Calibration(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InvalidFile(f"{path}: not a calibration ({error}); measure again: cotune model calibrate") from None


def _file(folder: Path, kind: str, threads: int) -> Path:
    shared = f"-{threads}" if kind == "cpu" else ""
    return folder / "devices" / f"{platform.node() or 'machine'}-{kind}{shared}.json"
