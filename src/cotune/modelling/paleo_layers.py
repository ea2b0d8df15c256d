"""PALEO's layers: the arithmetic and the transfers of each kernel, forward and backward.

    dense   x[N,I] W[I,O]           F = 2 N I O            moves x, W, y
    conv    kh kw ci co, out oh ow  F = 2 kh kw ci oh ow co N    moves x, W, y
    pool    kh kw, c channels       F = 2 kh kw c oh ow N  moves x, y
    dropout                         F = numel(x)           moves x, y
    bias, activation, norm, softmax, concat: nothing, as the paper has it

Backward of a convolution is two convolutions of stride 1. To the data: the output's gradient,
blown up to (o - 1) s + 1 by zeros between, with the filter; to the filter: the input with that
gradient as the filter, whose zeros cost neither arithmetic nor transfer. The layer that the
data feeds skips the first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

FLOAT = 4  # bytes; PALEO knows single precision only


@dataclass(frozen=True, slots=True)
class PaleoKernel:
    """What one kernel does: so many operations, and tensors of so many bytes moved one by one."""

    flops: float
    moves: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """One dimension of a window that slides: its input, its size, its stride and the padding before it."""

    size: int
    window: int
    stride: int
    padding: Literal["VALID", "SAME"] | int

    @property
    def out(self) -> int:
        if self.padding == "VALID":
            return math.ceil((self.size - self.window + 1) / self.stride)
        if self.padding == "SAME":
            return math.ceil(self.size / self.stride)
        return (self.size + 2 * self.padding - self.window) // self.stride + 1

    @property
    def pad(self) -> int:
        if self.padding == "VALID":
            return 0
        if self.padding == "SAME":
            return ((self.out - 1) * self.stride + self.window - self.size) // 2
        return self.padding

    @property
    def blown_up(self) -> tuple[int, int]:
        """Return the size of the output's gradient with zeros between, and the padding around it."""
        expanded = (self.out - 1) * self.stride + 1
        before = self.window - 1 - self.pad
        after = self.size + self.window - 1 - expanded - before
        return expanded + (1 if abs(before - after) == 1 else 0), min(before, after)


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution; `first` when the data feeds it, so that nothing is passed further back."""

    height: Span
    width: Span
    channels: int
    filters: int
    first: bool = False

    @property
    def parameters(self) -> int:
        return self.height.window * self.width.window * self.channels * self.filters + self.filters

    def forward(self, batch: int) -> tuple[PaleoKernel, ...]:
        return (_convolve(batch, self.height, self.width, self.channels, self.filters),)

    def backward(self, batch: int) -> tuple[PaleoKernel, ...]:
        return (self._to_filter(batch),) if self.first else (self._to_data(batch), self._to_filter(batch))

    @property
    def _zeros(self) -> float:
        """Return the share of the blown-up gradient that is zero."""
        there = self.height.out * self.width.out
        return 1 - there / (self.height.blown_up[0] * self.width.blown_up[0])

    def _to_data(self, batch: int) -> PaleoKernel:
        height, width = (Span(side.blown_up[0], side.window, 1, side.blown_up[1]) for side in (self.height, self.width))
        return _convolve(batch, height, width, self.filters, self.channels)

    def _to_filter(self, batch: int) -> PaleoKernel:
        valid = self.height.padding == "VALID"
        height, width = (
            Span(side.size, side.blown_up[0], 1, "VALID" if valid else side.blown_up[1])
            for side in (self.height, self.width)
        )
        return _convolve(self.channels, height, width, batch, self.filters, zeros=self._zeros)


def _convolve(batch: int, height: Span, width: Span, channels: int, filters: int, *, zeros: float = 0.0) -> PaleoKernel:
    weights = height.window * width.window * channels * filters
    flops = 2.0 * weights * height.out * width.out * batch
    inputs = batch * height.size * width.size * channels
    outputs = batch * height.out * width.out * filters
    return PaleoKernel(flops * (1 - zeros), (FLOAT * inputs, FLOAT * weights * (1 - zeros), FLOAT * outputs))


@dataclass(frozen=True, slots=True)
class Dense:
    """A matrix of weights between two sizes, applied to `rows` rows of every example."""

    inputs: int
    outputs: int
    rows: int = 1
    first: bool = False

    @property
    def parameters(self) -> int:
        return self.inputs * self.outputs + self.outputs

    def forward(self, batch: int) -> tuple[PaleoKernel, ...]:
        return (_product(batch * self.rows, self.inputs, self.outputs),)

    def backward(self, batch: int) -> tuple[PaleoKernel, ...]:
        rows = batch * self.rows
        to_weights = _product(self.inputs, rows, self.outputs)
        return (to_weights,) if self.first else (_product(rows, self.outputs, self.inputs), to_weights)


def _product(rows: int, inner: int, columns: int) -> PaleoKernel:
    moves = (rows * inner, inner * columns, rows * columns)
    return PaleoKernel(2.0 * rows * inner * columns, tuple(float(FLOAT * numbers) for numbers in moves))


@dataclass(frozen=True, slots=True)
class Pooling:
    """The greatest or the average of a window."""

    height: Span
    width: Span
    channels: int
    parameters: int = 0

    def forward(self, batch: int) -> tuple[PaleoKernel, ...]:
        outputs = batch * self.height.out * self.width.out * self.channels
        inputs = batch * self.height.size * self.width.size * self.channels
        flops = 2.0 * self.height.window * self.width.window * outputs
        return (PaleoKernel(flops, (FLOAT * inputs, FLOAT * outputs)),)

    def backward(self, batch: int) -> tuple[PaleoKernel, ...]:
        return self.forward(batch)


@dataclass(frozen=True, slots=True)
class Dropout:
    """Numbers left out at random."""

    numbers: int
    parameters: int = 0

    def forward(self, batch: int) -> tuple[PaleoKernel, ...]:
        numbers = float(batch * self.numbers)
        return (PaleoKernel(numbers, (FLOAT * numbers, FLOAT * numbers)),)

    def backward(self, batch: int) -> tuple[PaleoKernel, ...]:
        return self.forward(batch)


PaleoLayer = Convolution | Dense | Pooling | Dropout  # of a network whose batch is still open
