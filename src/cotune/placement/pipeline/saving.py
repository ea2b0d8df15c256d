"""What a pipeline leaves: weights and the optimiser's state of every layer, in parts that any other layout can take.

    layer-3.pt                   dense weights, the same on all units
    layer-0.rows-1-of-4.pt       every fourth row, from the second on, of the tables of layer 0

Tables are in the parts in which units, or table servers, held them. Reading joins them, so a training may go on
with other cuts between stages, other numbers of units, and tables held elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cotune.errors import InvalidFile, NotFound
from cotune.placement.pipeline.layers import PipelineNetwork
from cotune.placement.pipeline.table_servers import TableKey, TableServer, tables_of
from cotune.placement.pipeline.unit import Unit

Weights = dict[str, Tensor]
State = dict[str, Any]  # of one weight: tensors like it, and counts of steps
_ROWS = re.compile(r"layer-(\d+)\.rows-(\d+)-of-(\d+)\.pt")


@dataclass(frozen=True, slots=True)
class SavedLayer:
    """The weights of a layer by name, whole, the optimiser's state of each, and which of them are tables."""

    weights: Weights
    optimiser: dict[str, State]
    tables: frozenset[str]

    def put(self, named: Mapping[str, Tensor], optimisers: Sequence[Optimizer], unit: int = 0, units: int = 1) -> None:
        """Fill tensors by their names, tables with one unit's rows of them, and their optimisers' state."""
        holders = {id(weight): one for one in optimisers for group in one.param_groups for weight in group["params"]}
        for name, tensor in named.items():
            rows = slice(unit, None, units) if name in self.tables else slice(None)
            with torch.no_grad():
                tensor.copy_(self.weights[name][rows] if name in self.tables else self.weights[name])
            if name in self.optimiser:
                holders[id(tensor)].state[tensor] = {
                    key: value[rows].to(tensor.device, copy=True) if _has_rows(value) else value
                    for key, value in self.optimiser[name].items()
                }


def save(folder: Path, unit: Unit) -> list[str]:
    """Write a unit's part and return its files; dense layers are written by the first unit of a stage alone."""
    folder.mkdir(parents=True, exist_ok=True)
    position = unit.position
    names = []
    for place, part in enumerate(unit.segment.parts, start=unit.stage.first):
        tables = {name: table.weight for name, table in tables_of(part).items()}
        if position.unit == 0:
            dense = {name: tensor for name, tensor in part.state_dict(keep_vars=True).items() if name not in tables}
            names.append(_write(folder / f"layer-{place}.pt", dense, unit.optimisers))
        if tables and not position.table_servers:
            path = folder / f"layer-{place}.rows-{position.unit}-of-{position.units}.pt"
            names.append(_write(path, tables, unit.optimisers))
    return names


def save_rows(folder: Path, server: TableServer) -> list[str]:
    """Write a table server's part and return its files."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _write(folder / f"layer-{place}.rows-{server.server}-of-{server.servers}.pt", own, stage.optimisers)
        for stage in server.stages
        for place, own in _by_layer(stage.weights).items()
    ]


def restore(folder: Path, unit: Unit) -> None:
    """Give a unit's layers the weights in a folder, and its optimisers their state."""
    for place, part in enumerate(unit.segment.parts, start=unit.stage.first):
        named = part.state_dict(keep_vars=True)
        if unit.position.table_servers:
            named = {name: tensor for name, tensor in named.items() if name not in tables_of(part)}
        layer_of(folder, place).put(named, unit.optimisers, unit.position.unit, unit.position.units)


def restore_rows(folder: Path, server: TableServer) -> None:
    """Give a table server its rows of the tables in a folder, and its optimisers their state."""
    for stage in server.stages:
        for place, own in _by_layer(stage.weights).items():
            layer_of(folder, place).put(own, stage.optimisers, server.server, server.servers)


def load(folder: Path, network: PipelineNetwork) -> list[nn.Module]:
    """Return the layers of a network with the weights in a folder, tables put together again."""
    missing = [str(place) for place in range(network.depth) if not (folder / f"layer-{place}.pt").exists()]
    if missing:
        raise NotFound(f"{folder} has no weights of layer {', '.join(missing)} of {network.name}")
    parts = [layer.make() for layer in network.layers]
    for place, part in enumerate(parts):
        saved = layer_of(folder, place)
        part.load_state_dict(saved.weights)
    return parts


def layer_of(folder: Path, place: int) -> SavedLayer:
    """Return a layer as it was saved, its tables put together again."""
    dense = _read(folder / f"layer-{place}.pt")
    found = {path: told for path in folder.glob(f"layer-{place}.rows-*.pt") if (told := _ROWS.fullmatch(path.name))}
    counts = {int(told[3]) for told in found.values()}
    if found and (len(counts) > 1 or len(found) != max(counts)):
        raise InvalidFile(f"{folder}: not all the parts of one table: {', '.join(sorted(path.name for path in found))}")
    parts = [_read(path) for path in sorted(found, key=lambda path: int(found[path][2]))]
    tables = {name: _joined([weights[name] for weights, _ in parts]) for name in (parts[0][0] if parts else ())}
    states = {name: _joined_state([state[name] for _, state in parts]) for name in (parts[0][1] if parts else ())}
    return SavedLayer({**dense[0], **tables}, {**dense[1], **states}, frozenset(tables))


def _by_layer(weights: Mapping[TableKey, nn.Parameter]) -> dict[int, dict[str, nn.Parameter]]:
    return {
        place: {name: weight for (layer, name), weight in weights.items() if layer == place} for place, _ in weights
    }


def _joined_state(parts: Sequence[State]) -> State:
    return {
        key: _joined([part[key] for part in parts]) if _has_rows(first) else first for key, first in parts[0].items()
    }


def _has_rows(value: object) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Return rows dealt out to parts in turn, in their order."""
    whole = parts[0].new_empty((sum(len(part) for part in parts), *parts[0].shape[1:]))
    for place, part in enumerate(parts):
        whole[place :: len(parts)] = part
    return whole


def _write(path: Path, named: Mapping[str, Tensor], optimisers: Sequence[Optimizer]) -> str:
    """Write tensors with their optimisers' state; they are on the disk when this returns the file's name."""
    states = {name: one.state[tensor] for name, tensor in named.items() for one in optimisers if tensor in one.state}
    saved = {"weights": {name: tensor.detach() for name, tensor in named.items()}, "optimiser": states}
    with path.open("wb") as file:
        torch.save(saved, file)
        file.flush()
        os.fsync(file.fileno())
    return path.name


def _read(path: Path) -> tuple[Weights, dict[str, State]]:
    saved = torch.load(path, map_location="cpu", weights_only=True)
    return saved["weights"], saved["optimiser"]
