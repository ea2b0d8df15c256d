"""A network's step as the sum of its layers (Justus et al., 2018).

    T_b = sum over layers i of b_M(i)          b_M(i) by a model of single layers, trained on timed ones
    E   = p T_b                                p steps in an epoch
    T_b = h + sum of (b_M(i) - h)              `once`: h, what timing adds to a layer, is paid once a step (ours)

A layer that is timed in training also takes a loss, the start of a backward pass and a call of an optimiser, of which a
network has one each; h is what the emptiest layer takes for them, beyond a forward and twice that for a backward pass.

Convolutions, dense layers, poolings and recurrent layers are read from a forward pass over fake tensors, with the
shapes that reach them; an activation counts with the layer before it. All else takes no time, and what has weights
among it is named. Sides of an image or a kernel that differ are replaced by the square of the same area.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor, nn

from cotune.errors import NotFound, UsageError
from cotune.modelling.counting.counts import Counts
from cotune.modelling.counting.workload import Workload, has_weights, module_calls
from cotune.modelling.layer_rows import Facts, LayerPredictor, Layers
from cotune.modelling.prediction import Prediction, Target, from_another, within
from cotune.types import Config

_ACTIVATIONS = {nn.ReLU: "relu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid"}
_CELLS = {nn.RNN: "rnn", nn.LSTM: "lstm", nn.GRU: "gru"}
_REACH = 5.0  # either way: holds all 4 networks by trees from 72 layers of a kind, `benchmarks/layer_sums.py` on a CPU
_ENOUGH = 1000  # timed layers of a kind; the authors had tens of thousands
_EMPTIEST = 0.01  # the quantile of timed layers, as in `predictors/layerwise.py`
_POOLS = (nn.MaxPool2d, nn.AvgPool2d)
Row = dict[str, str]


@dataclass(frozen=True)
class LayerReading:
    """The layers of a network as rows of the tables of timed layers, and what has weights and no table."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    strange: dict[str, None] = field(default_factory=dict)


def read_network(workload: Workload, batch: int, optimiser: str) -> LayerReading:
    """Return the layers of a network as they are called with a batch."""
    reading, last = LayerReading(), Row()
    for module, entering, output in module_calls(workload, lambda _: batch, "a sum of layers"):
        word = _ACTIVATIONS.get(type(module))
        found = _row(module, entering, output) if entering is not None else None
        if word is not None and last.get("activation") == "none":
            last["activation"] = word
        elif found is not None:
            kind, row = found
            last = {name: str(value) for name, value in row.items()} | {"optimizer": optimiser}
            reading.rows.setdefault(kind, []).append(last)
        elif has_weights(module):
            reading.strange[type(module).__name__] = None
    if not reading.rows:
        raise UsageError(f"{workload.name} has no convolution, dense, pooling or recurrent layer to add up")
    return reading


def summed_seconds(
    reading: LayerReading, timed: Mapping[str, Layers], device: str, law: LayerPredictor, *, once: bool = False
) -> float:
    """Return the seconds of a step: each kind of layer by a model of the timed layers of its kind on that device."""
    total = most = 0.0
    for kind, rows in reading.rows.items():
        table = timed.get(kind)
        own = table.take(table.device == device) if table is not None else None
        if own is None or not len(own):
            raise NotFound(f"no timed {kind} layers of {device}, and the network has {len(rows)}: cotune model layers")
        facts = Facts(**{name: float(column[0]) for name, column in own.facts.items()})
        added = _added(own) if once else 0.0
        found = law.fit_layers(own).predict(Layers.of(kind, rows, device, facts))
        total, most = total + float(np.maximum(found - added, 0.0).sum()), max(most, added)
    return (total + most) / 1e3


def _added(layers: Layers) -> float:
    """Return the milliseconds that timing in training adds to a layer, from the emptiest ones of both ways."""
    training = layers.shape["optimizer"] > 0
    if training.all() or not training.any():
        return 0.0
    trained, forward = (float(np.quantile(layers.ms[rows], _EMPTIEST)) for rows in (training, ~training))
    return max(trained - 3 * forward, 0.0)


def from_layers(
    workload: Workload,
    counts: Counts,
    config: Config,
    target: Target,
    *,
    timed: Mapping[str, Layers],
    device: str,
    law: LayerPredictor,
    optimiser: str,
    once: bool = False,
) -> Prediction:
    """Return what the sum of its layers says of a config; memory and communication are counted."""
    reading = read_network(workload, config.batch_size, optimiser)
    seconds = summed_seconds(reading, timed, device, law, once=once)
    found = from_another(counts, config, target, seconds, device)
    timings = {kind: int((timed[kind].device == device).sum()) for kind in reading.rows}
    learnt = ", ".join(f"{count} {kind}" for kind, count in timings.items())
    words = (
        f"the sum of its {sum(map(len, reading.rows.values()))} layers, learnt from {learnt} layers timed on {device}"
    )
    fewest = min(timings.values())
    few = (f"learnt from as few as {fewest} layers of a kind it may be off by more than its interval",)
    missing = (f"not in the sum of layers: {', '.join(reading.strange)}",) if reading.strange else ()
    return replace(
        found,
        tier="layerwise",
        known_from=words,
        step_seconds=within(found.step_seconds.mid, _REACH, "extrapolated"),
        notes=(*found.notes, *missing, *(few if fewest < _ENOUGH else ())),
    )


def _row(module: nn.Module, entering: Tensor, leaving: Any) -> tuple[str, dict[str, object]] | None:
    batch = entering.shape[0]
    if isinstance(module, nn.Linear):
        rows = entering.numel() // module.in_features
        return "dense", {"batch": rows, "dim_in": module.in_features, "dim_out": module.out_features, **_PLAIN}
    if isinstance(module, nn.Conv2d):
        own = {"c_in": module.in_channels // module.groups, "c_out": module.out_channels}
        shape = _window(entering, leaving, module.kernel_size, module.stride)
        return "conv", {"batch": batch, **shape, **own, "bias": int(module.bias is not None), **_PLAIN}
    if isinstance(module, _POOLS):
        shape = _window(entering, leaving, module.kernel_size, module.stride or module.kernel_size)
        return "pool", {"batch": batch, **shape, "channels": entering.shape[1]}
    if isinstance(module, nn.AdaptiveAvgPool2d):
        sides = [max(size // out, 1) for size, out in zip(entering.shape[2:], leaving.shape[2:], strict=True)]
        return "pool", {"batch": batch, **_window(entering, leaving, sides, sides), "channels": entering.shape[1]}
    if type(module) in _CELLS:
        return "recurrent", _recurrent(module, entering)
    return None


_PLAIN = {"activation": "none"}


def _recurrent(module: nn.Module, entering: Tensor) -> dict[str, object]:
    first = bool(module.batch_first)
    return {
        "batch": entering.shape[0 if first else 1],
        "length": entering.shape[1 if first else 0],
        "dim_in": module.input_size,
        "dim_out": module.hidden_size,
        "cell": _CELLS[type(module)],
        "bidirectional": int(bool(module.bidirectional)),
    }


def _window(entering: Tensor, leaving: Tensor, kernel: Any, stride: Any) -> dict[str, object]:
    size, out = _side(entering.shape[2:]), _side(leaving.shape[2:])
    step = _side(stride)
    return {
        "size_in": size,
        "kernel": _side(kernel),
        "stride": step,
        "padding": "same" if out == -(-size // step) else "valid",
    }


def _side(sides: Any) -> int:
    """Return the side of the square with the same area."""
    return sides if isinstance(sides, int) else max(round(float(np.sqrt(np.prod([float(one) for one in sides])))), 1)
