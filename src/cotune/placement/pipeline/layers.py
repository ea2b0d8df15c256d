"""A network as a chain of layers with named tensors between them, so that it can be cut anywhere.

    flow = {"ids": ..., "dense": ..., "label": ...}      the columns of a batch, one row per example
    flow[reads] ─▶ layer ─▶ flow[writes]                 layer after layer; the last one writes "loss"

A cut before layer j carries every name that some layer from j on reads and that was there
before: activations, and columns that only a later layer needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from cotune.errors import UsageError

Flow = dict[str, Tensor]
LOSS = "loss"  # of each example


@dataclass(frozen=True, slots=True)
class PipelineLayer:
    """A part of a network: which names it reads and writes, and how its module is made."""

    name: str
    kind: str
    make: Callable[[], nn.Module]
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    def build(self, seed: int, place: int) -> nn.Module:
        """Return the module with first weights that depend on the seed and the layer's place alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed * 1_000_003 + place)
            return self.make()


@dataclass(frozen=True, slots=True)
class PipelineNetwork:
    """Layers in order, and the columns that their input has."""

    name: str
    layers: tuple[PipelineLayer, ...]
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        known = set(self.columns)
        for layer in self.layers:
            if unknown := set(layer.reads) - known:
                raise ValueError(f"layer {layer.name} reads {', '.join(sorted(unknown))}, which nothing wrote")
            known |= set(layer.writes)
        if LOSS not in self.layers[-1].writes:
            raise ValueError(f"the last layer, {self.layers[-1].name}, must write {LOSS!r}")

    @property
    def depth(self) -> int:
        return len(self.layers)

    def carried(self, cut: int) -> tuple[str, ...]:
        """Return the names that cross the cut before a layer; nothing crosses the two ends."""
        if not 0 < cut < self.depth:
            return ()
        there = dict.fromkeys([*self.columns, *(name for layer in self.layers[:cut] for name in layer.writes)])
        wanted = {name for layer in self.layers[cut:] for name in layer.reads}
        return tuple(name for name in there if name in wanted)

    def grouped(self, sizes: Sequence[int]) -> PipelineNetwork:
        """Return the network with so many neighbouring layers at a time joined into one."""
        if min(sizes, default=0) < 1 or sum(sizes) != self.depth:
            raise UsageError(f"groups {list(sizes)} must be positive and add up to {self.depth} layers of {self.name}")
        ends = accumulate(sizes, initial=0)
        return replace(self, layers=tuple(_joined(self.layers[first:end]) for first, end in pairwise(ends)))


class Segment(nn.Module):
    """The layers of one stage, built."""

    def __init__(self, network: PipelineNetwork, first: int, last: int, seed: int) -> None:
        super().__init__()
        self.layers = network.layers[first : last + 1]
        self.parts = nn.ModuleList(layer.build(seed, first + place) for place, layer in enumerate(self.layers))
        self.leaving = (LOSS,) if last == network.depth - 1 else network.carried(last + 1)

    def forward(self, flow: Flow) -> Flow:
        """Return what leaves the stage."""
        known = dict(flow)
        for layer, part in zip(self.layers, self.parts, strict=True):
            known |= _applied(layer, part, known)
        return {name: known[name] for name in self.leaving}


class _Joined(nn.Module):
    """Several layers as one."""

    def __init__(self, layers: Sequence[PipelineLayer]) -> None:
        super().__init__()
        self.layers = tuple(layers)
        self.parts = nn.ModuleList(layer.make() for layer in layers)

    def forward(self, *entering: Tensor) -> tuple[Tensor, ...]:
        known = dict(zip(_read(self.layers), entering, strict=True))
        for layer, part in zip(self.layers, self.parts, strict=True):
            known |= _applied(layer, part, known)
        return tuple(known[name] for name in _written(self.layers))


def _applied(layer: PipelineLayer, part: nn.Module, known: Flow) -> Flow:
    made = part(*(known[name] for name in layer.reads))
    return dict(zip(layer.writes, made if isinstance(made, tuple) else (made,), strict=True))


def _joined(layers: tuple[PipelineLayer, ...]) -> PipelineLayer:
    if len(layers) == 1:
        return layers[0]
    kinds = dict.fromkeys(layer.kind for layer in layers)
    return PipelineLayer(
        "+".join(layer.name for layer in layers),
        "+".join(kinds),
        lambda: _Joined(layers),
        _read(layers),
        _written(layers),
    )


def _read(layers: Sequence[PipelineLayer]) -> tuple[str, ...]:
    """Return what joined layers read from outside."""
    return tuple(dict.fromkeys(_from_outside(layers)))


def _from_outside(layers: Sequence[PipelineLayer]) -> Iterator[str]:
    inside: set[str] = set()
    for layer in layers:
        yield from (name for name in layer.reads if name not in inside)
        inside |= set(layer.writes)


def _written(layers: Sequence[PipelineLayer]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for layer in layers for name in layer.writes))
