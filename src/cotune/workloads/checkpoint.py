"""Where a run stands, kept in one file so that another start can go on from there.

cotune names a folder in COTUNE_CHECKPOINT and asks to go on by COTUNE_RESUME=1. The file
in it is written beside its place and then moved there: it is always whole. It holds how many
examples of the epoch were seen, so a run may go on in mid-epoch, with more or fewer workers.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from cotune.errors import InvalidFile
from cotune.workloads.workers import Workers

FILE = "last.pt"


@dataclass(frozen=True, slots=True)
class Position:
    """Whole epochs done, and examples seen of the one begun."""

    epoch: int = 0
    seen: int = 0


def save(place: Position, model: nn.Module, optimiser: Optimizer, workers: Workers) -> bool:
    """Write the checkpoint if cotune named a folder for it; return whether it did."""
    file = _file()
    if file is None:
        return False
    if workers.rank == 0:
        state = {
            "epoch": place.epoch,
            "seen": place.seen,
            "model": model.state_dict(),
            "optimiser": optimiser.state_dict(),
            "random": torch.get_rng_state(),
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        _write(file, buffer.getbuffer())
    return True


def restore(model: nn.Module, optimiser: Optimizer, workers: Workers) -> Position:
    """Put back what the checkpoint holds and return its place; the beginning if there is nothing to go on from."""
    file = _file()
    if file is None or os.environ.get("COTUNE_RESUME") != "1":
        return Position()
    found = workers.from_first(_read(file) if workers.rank == 0 else None)
    if isinstance(found, str):
        raise InvalidFile(found)
    if not isinstance(found, dict):
        return Position()
    try:
        model.load_state_dict(found["model"])
        optimiser.load_state_dict(found["optimiser"])
        torch.set_rng_state(found["random"])
        return Position(found["epoch"], found["seen"])
    except (KeyError, RuntimeError, ValueError) as error:
        raise InvalidFile(f"{file} is no checkpoint of this model; start without COTUNE_RESUME") from error


def _file() -> Path | None:
    folder = os.environ.get("COTUNE_CHECKPOINT")
    return Path(folder) / FILE if folder else None


def _write(file: Path, content: memoryview) -> None:
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(file)
    except OSError as error:  # hours of training must outlive a full disk
        with suppress(OSError):
            beside.unlink()
        print(f"train: no checkpoint written: {error}", file=sys.stderr, flush=True)


def _read(file: Path) -> dict[str, Any] | str | None:
    """Return the state, None where there is none, or what is wrong with it, to be told to all ranks."""
    if not file.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        return f"cannot read the checkpoint {file}: {str(error).splitlines()[0]}"
    return state
