"""What a pipeline leaves: the weights of every layer, in the parts in which its units held them.

layer-3.unit-0-of-1.pt        a layer whose units all had the same weights
layer-0.unit-1-of-4.pt        every fourth row, from the second on, of the tables of layer 0
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor, nn

from cotune.errors import InvalidFile, NotFound
from cotune.placement.pipeline.layers import PipelineNetwork
from cotune.placement.pipeline.tables import EmbeddingTable
from cotune.placement.pipeline.unit import Unit

_NAME = re.compile(r"layer-(\d+)\.unit-(\d+)-of-(\d+)\.pt")


def save(folder: Path, unit: Unit) -> None:
    """Write this unit's part; dense layers are written by the first unit of a stage alone."""
    folder.mkdir(parents=True, exist_ok=True)
    number, units = unit.seat.unit, unit.seat.units
    for place, part in enumerate(unit.segment.parts, start=unit.stage.first):
        if not _tables(part):
            if number == 0:
                torch.save(part.state_dict(), folder / f"layer-{place}.unit-0-of-1.pt")
            continue
        torch.save(part.state_dict(), folder / f"layer-{place}.unit-{number}-of-{units}.pt")


def load(folder: Path, network: PipelineNetwork) -> list[nn.Module]:
    """Return the layers of a network with the weights in a folder, tables put together again."""
    files: dict[int, dict[int, Path]] = {}
    for path in folder.glob("layer-*.pt"):
        if found := _NAME.fullmatch(path.name):
            files.setdefault(int(found[1]), {})[int(found[2])] = path
    if missing := [str(place) for place in range(network.depth) if place not in files]:
        raise NotFound(f"{folder} has no weights of layer {', '.join(missing)} of {network.name}")
    return [_loaded(network.layers[place].make(), files[place]) for place in range(network.depth)]


def _loaded(part: nn.Module, files: dict[int, Path]) -> nn.Module:
    states = [torch.load(files[unit], map_location="cpu", weights_only=True) for unit in sorted(files)]
    whole: dict[str, Tensor] = dict(states[0])
    for name in _tables(part):
        rows = torch.empty_like(part.state_dict()[name])
        for unit, state in enumerate(states):
            if rows[unit :: len(states)].shape != state[name].shape:
                raise InvalidFile(f"{files[unit]}: not one of {len(states)} parts of a table of {len(rows)} rows")
            rows[unit :: len(states)] = state[name]
        whole[name] = rows
    part.load_state_dict(whole)
    return part


def _tables(part: nn.Module) -> list[str]:
    """Return the names of the tables' weights in a layer."""
    return [f"{name}.weight" for name, module in part.named_modules() if isinstance(module, EmbeddingTable)]
