"""Habitat's scaling: operator times measured on one GPU, as another would take them.

    T_d = T_o (D_o / D_d)^g (C_o / C_d)^(1 - g) (S_o / S_d)^(1 - g)

D is the bandwidth of memory, C the clock, S the number of multiprocessors of origin o and destination
d; where tensor cores do the work their published peak stands for C x S, which knows nothing of them.
g says how much an operator waits for memory, from the roofline of the destination: with I its
operations per byte and R = peak / bandwidth,

    g = 1 - I / 2R  where I <= R,     R / 2I  elsewhere;     1 without operations, 0 without bytes

The paper reads I from hardware counters, which need privileges; here it is counted. Operators that
are small on both (below a few microseconds) take what it takes to launch them, and are kept.

Reference: Yu et al., Habitat: a runtime-based performance predictor for DNN training, USENIX ATC 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cotune.devices import Spec

_LAUNCH = 5e-6  # seconds: a kernel this short is bound by its launch on any GPU


@dataclass(frozen=True, slots=True)
class MeasuredOperator:
    """An operator's seconds on the origin, with the operations and bytes that were counted for it."""

    name: str
    seconds: float
    calls: float
    flops: float
    bytes: float
    precision: str = "fp32"


def memory_share(flops: float, moved: float, device: Spec, precision: str = "fp32") -> float:
    """Return g: 1 where an operator only waits for memory, 0 where it never does."""
    if flops <= 0:
        return 1.0
    if moved <= 0:
        return 0.0
    ridge = device.flops.get(precision, device.flops["fp32"]) / device.bandwidth
    intensity = flops / moved
    return 1 - 0.5 * intensity / ridge if intensity <= ridge else 0.5 * ridge / intensity


def scaled(operator: MeasuredOperator, origin: Spec, destination: Spec) -> float:
    """Return the seconds of an operator on the destination."""
    if operator.calls and operator.seconds / operator.calls < _LAUNCH:
        return operator.seconds
    g = memory_share(operator.flops, operator.bytes, destination, operator.precision)
    memory = origin.bandwidth / destination.bandwidth
    arithmetic = _speed(origin, operator.precision) / _speed(destination, operator.precision)
    return operator.seconds * float(memory**g * arithmetic ** (1 - g))


def _speed(device: Spec, precision: str) -> float:
    """Return what arithmetic scales with: clock x multiprocessors, or the peak of tensor cores where they do it."""
    return device.clock * device.units if precision == "fp32" else device.flops.get(precision, device.flops["fp32"])


def step_seconds(operators: Sequence[MeasuredOperator], origin: Spec, destination: Spec, idle: float = 0.0) -> float:
    """Return a whole step on the destination; `idle` is the part that no operator took, and stays."""
    return idle + sum(scaled(operator, origin, destination) for operator in operators)


def measured(
    times: Sequence[tuple[str, float, float]],
    family: Callable[[str], str | None],
    work: Mapping[str, tuple[float, float]],
    precision: str = "fp32",
) -> list[MeasuredOperator]:
    """Return profiled operators (name, seconds, calls) with the operations and bytes of the family they belong to.

    Only their ratio matters. An operator of no counted family scales with the memory.
    """
    found = []
    for name, seconds, calls in times:
        kind = family(name) or ""
        found.append(MeasuredOperator(name, seconds, calls, *work.get(kind, (0.0, 1.0)), _precision(kind, precision)))
    return found


def _precision(kind: str, precision: str) -> str:
    """Return what a family computes in: torch convolves in TF32 by default, and adds up in single precision."""
    if kind == "convolution" and precision == "fp32":
        return "tf32"
    return precision if kind in ("matmul", "convolution", "attention") else "fp32"
