"""Configs as columns on which distances make sense.

    batch per worker, accumulation, workers, nodes    in doublings
    one worker or several, one node or several        two values, a step apart
    tensor groups inside a node or across nodes
    numeric named axes (power limit)                  in doublings, or in ranges when there is a zero;
                                                      those that the law explains (`_layout`) are told apart
    devices and named axes that are words             equal or not

What is a number and what is a word is settled by the configs that were measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from cotune.predict.layout import EXPLAINED, nodes, tensor_across
from cotune.space import Configs
from cotune.types import Floats

Kind = Literal["batch", "workers", "step", "number", "explained", "word"]
_UNKNOWN = -1.0  # the code of a word never measured


@dataclass(frozen=True, slots=True)
class Feature:
    """One column: its name, what kind of distance it has, and how it is read from configs."""

    name: str
    kind: Kind
    read: Callable[[Configs], Floats]


def features_of(configs: Configs, per_node: int | None) -> tuple[Feature, ...]:
    """Return the features of configs like these."""
    layout = (
        Feature("batch_size", "batch", lambda c: _doublings(c.batch_size)),
        Feature("accumulate", "batch", lambda c: _doublings(c.accumulate)),
        Feature("workers", "workers", lambda c: _doublings(c.workers)),
        Feature("nodes", "workers", lambda c: np.log2(nodes(c, per_node))),
        Feature("several workers", "step", lambda c: (c.workers > 1).astype(np.float64)),
        Feature("several nodes", "step", lambda c: (nodes(c, per_node) > 1).astype(np.float64)),
        Feature("tensor across nodes", "step", lambda c: tensor_across(c, per_node).astype(np.float64)),
        Feature("servers", "workers", lambda c: np.log2(1.0 + c.servers)),
        _word("device", configs.device),
    )
    return (*layout, *(_named(name, column) for name, column in sorted(configs.named.items())))


def columns(features: Sequence[Feature], configs: Configs) -> Floats:
    """Return every feature of every config, one row per config."""
    return np.stack([feature.read(configs) for feature in features], axis=1)


def _doublings(values: npt.NDArray[np.int64]) -> Floats:
    return np.log2(np.maximum(values, 1).astype(np.float64))


def _named(name: str, column: npt.NDArray[np.generic]) -> Feature:
    values = column.tolist()
    if not all(type(value) in (int, float) for value in values):
        return _word(name, column)
    kind: Kind = "explained" if name in EXPLAINED else "number"
    low, high = min(values), max(values)
    if low > 0:
        return Feature(name, kind, lambda c: np.log2(np.maximum(_numbers(c, name, low), 1e-9)))
    width = float(high - low) or 1.0
    return Feature(name, kind, lambda c: _numbers(c, name, low) / width)


def _numbers(configs: Configs, name: str, missing: float) -> Floats:
    column = configs.columns[name].tolist() if name in configs.columns else [missing] * configs.length
    return np.array([value if type(value) in (int, float) else missing for value in column], dtype=np.float64)


def _word(name: str, column: npt.NDArray[np.generic]) -> Feature:
    codes = {value: float(code) for code, value in enumerate(dict.fromkeys(column.tolist()))}

    def read(configs: Configs) -> Floats:
        if name != "device" and name not in configs.columns:
            return np.full(configs.length, codes.get("", _UNKNOWN))
        values = (configs.device if name == "device" else configs.columns[name]).tolist()
        return np.array([codes.get(value, _UNKNOWN) for value in values])

    return Feature(name, "word", read)
