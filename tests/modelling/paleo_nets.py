"""Networks as PALEO's authors write them: JSON with named layers, their parents, and blocks of such.

Inside a block a layer without parents takes those of the block, and from outside it is called
`block/layer`. Shapes are height x width x channels; only convolutions, poolings, dropout and dense
layers take time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotune.modelling.paleo_layers import Convolution, Dense, Dropout, PaleoLayer, Pooling, Span

Shape = tuple[int, int, int]
_IDLE = {"Softmax", "Concatenate"}


@dataclass(frozen=True, slots=True)
class Net:
    """A network: its layers in order, and how many examples its file takes at once."""

    name: str
    layers: tuple[PaleoLayer, ...]
    batch: int

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)


def read_net(path: Path) -> Net:
    """Return the network in a file of PALEO's format."""
    return parse_net(json.loads(path.read_text(encoding="utf-8")))


def parse_net(written: Mapping[str, Any]) -> Net:
    """Return the network in plain JSON data."""
    shapes: dict[str, Shape] = {}
    layers: list[PaleoLayer] = []
    batch = 1
    for name, parents, entry in _flat(written["layers"], "", []):
        if entry["type"] == "Input":
            batch, height, width, channels = entry["tensor"]
            shapes[name] = (height, width, channels)
            continue
        entering = [shapes[parent] for parent in parents]
        made, shapes[name] = _layer(entry, entering, fed_by_data=not set(parents) - {"data"})
        layers += [made] if made is not None else []
    return Net(str(written.get("name", "")), tuple(layers), int(batch))


def _flat(
    entries: Mapping[str, Any], prefix: str, outer: list[str]
) -> Iterator[tuple[str, list[str], Mapping[str, Any]]]:
    """Yield every layer with its full name and those of its parents, blocks unfolded."""
    for name, entry in entries.items():
        parents = [prefix + parent for parent in entry["parents"]] or outer
        if entry["type"] == "Block":
            yield from _flat(entry["layers"], f"{prefix}{name}/", parents)
        else:
            yield prefix + name, parents, entry


def _layer(entry: Mapping[str, Any], entering: list[Shape], *, fed_by_data: bool) -> tuple[PaleoLayer | None, Shape]:
    """Return a layer, None where it takes no time, and the shape that leaves it."""
    height, width, channels = entering[0]
    if entry["type"] == "Convolution":
        tall, wide, _, filters = entry["filter"]
        rows, columns = _spans(entry, height, width, tall, wide)
        return Convolution(rows, columns, channels, filters, fed_by_data), (rows.out, columns.out, filters)
    if entry["type"] in ("Pooling", "AvgPool"):
        rows, columns = _spans(entry, height, width, entry["ksize"][1], entry["ksize"][2])
        return Pooling(rows, columns, channels), (rows.out, columns.out, channels)
    if entry["type"] == "Dropout":
        return Dropout(height * width * channels), entering[0]
    if entry["type"] == "InnerProduct":
        outputs = int(entry["num_outputs"])
        return Dense(height * width * channels, outputs, first=fed_by_data), (1, 1, outputs)
    if entry["type"] in _IDLE:
        return None, (height, width, sum(shape[2] for shape in entering))
    raise ValueError(f"unknown type of layer {entry['type']!r}")


def _spans(entry: Mapping[str, Any], height: int, width: int, tall: int, wide: int) -> tuple[Span, Span]:
    _, down, across, _ = entry["strides"]
    return Span(height, tall, down, entry["padding"]), Span(width, wide, across, entry["padding"])
