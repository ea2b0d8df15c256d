"""What was measured of the machine at hand, kept in the work folder of a project.

One file per host and kind of device; a CPU's also says how many cores one worker had.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from cotune.errors import InvalidFile


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
