"""What models of layers read: the published features, and the physical ones.

Published (Justus et al.): the shape as it is, squares of image and kernel sides, one column for
each optimiser and activation, and across devices bandwidth, cores and clock.

Physical: a layer is a matrix product of m x k by k x n (a convolution: m = batch x output
pixels, n = output channels, k = inputs of one filter; a recurrent layer does one per step) with

    F = 2 m n k operations, three times that with a backward pass
    Q = bytes of input, output and weights, three times that with a backward pass, and what the
        optimiser reads and writes of the weights
    roofline = F / peak + Q / bandwidth                  milliseconds, where the device is known

The ratio of two devices' rooflines carries the milliseconds of one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cotune.modelling.layer_rows import WORDS, Layers
from cotune.types import Floats

_SQUARED = ("size_in", "kernel")
_CHOICES = ("optimizer", "activation", "cell")
_STATES = {"none": 0.0, "sgd": 2.0, "adadelta": 6.0, "adagrad": 4.0, "momentum": 4.0, "adam": 6.0, "rmsprop": 4.0}
_FLOAT = 4.0  # bytes
_GATES = {"rnn": 1.0, "lstm": 4.0, "gru": 3.0}


def published(layers: Layers, *, hardware: bool) -> Floats:
    """Return the features of Justus et al., one row per layer."""
    columns: list[Floats] = []
    for name, column in layers.shape.items():
        if name in _SQUARED:
            columns.append(column**2)
        elif name in _CHOICES:
            first = 0 if name == "cell" else 1  # no optimiser, no activation: all columns are zero
            columns += [(column == code).astype(np.float64) for code in range(first, len(WORDS[name]))]
        else:
            columns.append(column)
    if hardware:
        columns += [layers.facts[name] for name in ("gigabytes_per_second", "cores", "mhz")]
    return np.column_stack(columns)


@dataclass(frozen=True, slots=True)
class LayerWork:
    """What a layer does: matrix sizes, operations, and bytes moved."""

    m: Floats
    n: Floats
    k: Floats
    steps: Floats
    flops: Floats
    inputs: Floats
    outputs: Floats
    weights: Floats
    moved: Floats

    def roofline(self, facts: Mapping[str, Floats] | Mapping[str, float]) -> Floats:
        """Return the milliseconds at a device's peak, arithmetic and transfers one after the other."""
        return self.flops / (facts["gflops"] * 1e6) + self.moved / (facts["gigabytes_per_second"] * 1e6)


def work(layers: Layers) -> LayerWork:
    """Return the arithmetic and the transfers of each layer."""
    shape = layers.shape
    batch, steps = shape["batch"], np.ones(len(layers))
    if layers.kind == "dense":
        m, n, k = batch, shape["dim_out"], shape["dim_in"]
        inputs, outputs, weights = batch * k, batch * n, k * n
    elif layers.kind == "recurrent":
        gates = np.array([_GATES[word] for word in WORDS["cell"]])[shape["cell"].astype(np.int64)]
        gates = gates * (1 + shape["bidirectional"])
        steps = shape["length"]
        m, n, k = batch, gates * shape["dim_out"], shape["dim_in"] + shape["dim_out"]
        inputs = batch * steps * shape["dim_in"]
        outputs, weights = batch * steps * shape["dim_out"] * (1 + shape["bidirectional"]), n * k
    else:
        side = _side(layers)
        pixels, window = batch * side**2, shape["kernel"] ** 2
        if layers.kind == "pool":
            m, n, k = pixels, shape["channels"], window
            weights, channels = np.zeros(len(layers)), n
        else:
            m, n, k = pixels, shape["c_out"], window * shape["c_in"]
            weights, channels = n * k, shape["c_in"]
        inputs, outputs = batch * shape["size_in"] ** 2 * channels, m * n
    training = shape["optimizer"] > 0
    states = np.array([_STATES[word] for word in WORDS["optimizer"]])[shape["optimizer"].astype(np.int64)]
    moved = _FLOAT * ((inputs + outputs + weights * steps) * (1 + 2 * training) + states * weights)
    flops = 2 * m * n * k * steps * (1 + 2 * training)
    return LayerWork(m, n, k, steps, flops, inputs, outputs, weights, moved)


def _side(layers: Layers) -> Floats:
    """Return the side of the output image, at least one pixel."""
    size, kernel, stride = (layers.shape[name] for name in ("size_in", "kernel", "stride"))
    valid = np.floor((size - kernel) / stride) + 1
    return np.maximum(np.where(layers.shape["padding"] > 0, np.ceil(size / stride), valid), 1.0)


def physical(layers: Layers) -> tuple[Floats, list[int]]:
    """Return logarithms of shape and work, and which columns are words."""
    done = work(layers)
    sizes = [done.m, done.n, done.k, done.flops, done.inputs, done.outputs, done.weights, done.moved]
    columns = [np.log(size + 1) for size in sizes]
    columns.append(np.log(done.flops / done.moved))
    words: list[int] = []
    for name, column in layers.shape.items():
        if name in _CHOICES:
            words.append(len(columns))
            columns.append(column)
        else:
            columns.append(np.log(column + 1))
    columns.append((layers.shape["optimizer"] > 0).astype(np.float64))
    return np.column_stack(columns), words
