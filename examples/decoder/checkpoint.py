"""Where a training stands, as all its workers write it together and any other layout reads it.

Each worker writes what it has of every parameter and its moments (torch.distributed.checkpoint); names agree across
layouts, so a reader takes from the files what it needs. A checkpoint is a folder named by its step. It is written under
another name and then moved, so one that is there is whole; the one before goes when the next is there.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save as write
from torch.optim import Optimizer

Parts = Sequence[tuple[nn.Module, Optimizer]]  # a worker's stages, each with its optimiser
_PREFIX = "step-"
_FLAT = StateDictOptions(flatten_optimizer_state_dict=True)  # by parameter, not by group: layouts group differently


def save(where: Path, step: int, parts: Parts) -> None:
    """Write a checkpoint; every worker calls it."""
    place, beside = where / f"{_PREFIX}{step}", where / f"writing-{step}"
    write(_state(parts), checkpoint_id=beside, no_dist=not dist.is_initialized())
    if _is_first():
        shutil.rmtree(place, ignore_errors=True)
        beside.rename(place)
        for old in _steps(where):
            if old != step:
                shutil.rmtree(where / f"{_PREFIX}{old}", ignore_errors=True)
    if dist.is_initialized():
        dist.barrier()


def restore(where: Path, parts: Parts) -> int:
    """Put back what the latest checkpoint holds, whatever layout wrote it; return its step, 0 without one."""
    steps = _steps(where)
    if not steps:
        return 0
    place = where / f"{_PREFIX}{max(steps)}"
    state = _state(parts)
    try:
        load(state, checkpoint_id=place, no_dist=not dist.is_initialized())
    except (RuntimeError, ValueError, KeyError, CheckpointException) as error:
        raise ValueError(f"{place} is no checkpoint of this model: {str(error).splitlines()[0]}") from None
    for stage, optimiser in parts:
        model, moments = get_state_dict(stage, optimiser, options=_FLAT)
        own = {name: state["model"][name] for name in model}
        past: Any = {name: state["optimiser"][name] for name in moments}
        set_state_dict(stage, optimiser, model_state_dict=own, optim_state_dict=past, options=_FLAT)
    return max(steps)


def _state(parts: Parts) -> dict[str, Any]:
    """Return what there is to write of some stages, by names that no layout changes."""
    state: dict[str, Any] = {"model": {}, "optimiser": {}}
    for stage, optimiser in parts:
        model, moments = get_state_dict(stage, optimiser, options=_FLAT)
        state["model"] |= model
        state["optimiser"] |= moments
    return state


def _steps(where: Path) -> list[int]:
    return [int(path.name.removeprefix(_PREFIX)) for path in where.glob(f"{_PREFIX}*")] if where.is_dir() else []


def _is_first() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0
