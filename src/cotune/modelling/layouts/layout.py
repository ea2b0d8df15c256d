"""A layout: how one training step of a large model is spread over devices; every one that is right, exactly.

    dp * tp * pp = gpus          dp * micro_batch * accumulate = global batch
    tp divides the heads (keys and values too), lies inside a node unless allowed; pp at most the layers

`Layouts` holds many of them as columns, so that a hundred thousand are counted and scored as arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from itertools import product
from math import isqrt

import numpy as np

from cotune.modelling.layouts.setting import Setting
from cotune.types import Floats, Ints, Mask


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees of data, tensor and pipeline parallelism, ZeRO stage, and how a replica cuts its batch."""

    dp: int
    tp: int
    pp: int
    shard: int  # 0 nothing, 1 optimiser states, 2 gradients too, 3 parameters too (FSDP)
    micro_batch: int  # sequences
    accumulate: int  # micro-batches of a step
    recompute: int = 0  # 1: activations are computed again in the backward pass

    @property
    def gpus(self) -> int:
        return self.dp * self.tp * self.pp

    @property
    def global_batch(self) -> int:
        return self.dp * self.micro_batch * self.accumulate

    def __str__(self) -> str:
        words = f"dp {self.dp} x tp {self.tp} x pp {self.pp}, shard {self.shard}, micro-batch {self.micro_batch}"
        again = ", recompute" if self.recompute else ""
        return f"{words} x {self.accumulate}{again}"


COLUMNS = tuple(field.name for field in fields(Layout))


@dataclass(frozen=True, slots=True)
class Layouts:
    """Many layouts, one array a column."""

    dp: Ints
    tp: Ints
    pp: Ints
    shard: Ints
    micro_batch: Ints
    accumulate: Ints
    recompute: Ints

    @classmethod
    def of(cls, layouts: Iterable[Layout]) -> Layouts:
        listed = list(layouts)
        return cls(*(np.array([getattr(one, name) for one in listed], dtype=np.int64) for name in COLUMNS))

    def __len__(self) -> int:
        return len(self.dp)

    def __getitem__(self, place: int) -> Layout:
        return Layout(*(int(getattr(self, name)[place]) for name in COLUMNS))

    def take(self, rows: Ints | Mask) -> Layouts:
        return Layouts(*(getattr(self, name)[rows] for name in COLUMNS))

    def and_then(self, others: Layouts) -> Layouts:
        """Return these layouts, then others."""
        return Layouts(*(np.concatenate([getattr(self, name), getattr(others, name)]) for name in COLUMNS))

    @property
    def gpus(self) -> Ints:
        return self.dp * self.tp * self.pp

    @property
    def global_batch(self) -> Ints:
        return self.dp * self.micro_batch * self.accumulate


@dataclass(frozen=True, slots=True)
class LayoutRows:
    """Tried layouts of one model: seconds and GiB where they ran, nothing where they crashed (not a number)."""

    setting: Setting
    layouts: Layouts
    seconds: Floats
    gib: Floats

    @property
    def ran(self) -> Mask:
        return np.isfinite(self.seconds)

    def take(self, rows: Ints | Mask) -> LayoutRows:
        return LayoutRows(self.setting, self.layouts.take(rows), self.seconds[rows], self.gib[rows])


@dataclass(frozen=True, slots=True)
class LayoutLimits:
    """What a search may use of what is right: tp across nodes, stages of sharding, recomputing, pipelines."""

    tp_across_nodes: bool = False
    shards: tuple[int, ...] = (0, 1, 2, 3)
    recompute: tuple[int, ...] = (0, 1)
    pipelines: bool = True


USUAL, ANYWHERE = LayoutLimits(), LayoutLimits(tp_across_nodes=True)


def allowed(layouts: Layouts, setting: Setting, limits: LayoutLimits = ANYWHERE) -> Mask:
    """Return which layouts can be built at all: heads, layers, nodes, and what the framework refuses."""
    model, machine = setting.model, setting.machine
    inside = (layouts.tp <= machine.per_node) | limits.tp_across_nodes
    kv_split = np.minimum(layouts.tp, model.kv_heads) if setting.framework.repeats_kv else layouts.tp
    heads = (model.heads % layouts.tp == 0) & (model.kv_heads % kv_split == 0)
    whole_nodes = (layouts.tp <= machine.per_node) | (layouts.tp % machine.per_node == 0)
    useful = (layouts.shard == 0) | (layouts.dp > 1)
    stages = np.isin(layouts.pp, [pp for pp in np.unique(layouts.pp) if setting.buildable(int(pp))])
    return np.asarray(inside & heads & whole_nodes & useful & stages & ((layouts.pp == 1) | limits.pipelines))


def enumerate_layouts(setting: Setting, gpus: int, global_batch: int, limits: LayoutLimits = USUAL) -> Layouts:
    """Return every layout of exactly these devices and this global batch, in order of tp, pp, shard, micro-batch."""
    blocks = [np.zeros((0, len(COLUMNS)), dtype=np.int64)]
    choices = np.array(list(product(limits.shards, limits.recompute)), dtype=np.int64).reshape(-1, 2)
    for tp in _divisors(gpus):
        for pp in _divisors(gpus // tp):
            dp = gpus // (tp * pp)
            if global_batch % dp == 0 and setting.buildable(pp):
                micro = np.array(_divisors(global_batch // dp), dtype=np.int64)
                blocks.append(_block((dp, tp, pp), micro, choices))
    layouts = Layouts(*np.concatenate(blocks).T)
    return layouts.take(allowed(layouts, setting, limits))


def _block(degrees: tuple[int, int, int], micro: Ints, choices: Ints) -> Ints:
    """Return the layouts of three degrees as rows: every choice of shard and recompute with every micro-batch."""
    rows = np.empty((len(choices), len(micro), len(COLUMNS)), dtype=np.int64)
    rows[:, :, :3] = degrees
    rows[:, :, 3], rows[:, :, 6] = choices[:, :1], choices[:, 1:]
    rows[:, :, 4], rows[:, :, 5] = micro, micro[-1] // micro
    return rows.reshape(-1, len(COLUMNS))


@cache
def _divisors(number: int) -> list[int]:
    low = [part for part in range(1, isqrt(number) + 1) if number % part == 0]
    return sorted({*low, *(number // part for part in low)})
