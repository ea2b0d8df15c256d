"""Seconds of a step from its counts and a device's rates: the roofline, operator by operator.

    kernel    t = max(floor, F / (e G), B / (e' M))        G operations and M bytes per second
    on a CPU  step = s + sum of (dispatch + t)              s: what a step takes beside its operators
    on a GPU  step = (D^p + K^p)^(1/p), p = 1.5             D = s + all dispatch, K all kernels: partly side by side

e is what a family of operators reaches of the peak: measured by a calibration, else assumed (the
one place where PALEO's percent of peak stays, made per family). In single precision a GPU with
tensor cores convolves in TF32 and multiplies matrices in full, as torch does by default.

    ring      2 (n - 1) / n x P / link, of which half of backward hides what it can
    input     travels beside the step before: only what is longer than the step is waited for

Reference: Williams, Waterman and Patterson, Roofline, Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cotune.devices import Spec
from cotune.devices.present import Calibration
from cotune.modelling.counting.counts import Call, Counts

# Assumed shares of the published peak where nothing was measured.
_PRODUCT = {"gpu": 0.65, "cpu": 0.6}
_CONVOLUTION = 0.65  # in full single precision
_TENSOR_CORES = 0.2  # of convolutions there, forward and backward
_TRAINED = {"gpu": 0.45, "cpu": 0.75}  # of a convolution's forward rate, once backward is in it
SIDE_BY_SIDE = 1.5  # 1 adds dispatch and kernels up, infinity hides the shorter; between the two on real GPUs
_BANDWIDTH = {"gpu": 0.75, "cpu": 0.7}
_CORE_BANDWIDTH = 12e9  # what one core moves, however fast the memory of its socket
_LINK = 0.7
_DISPATCH = {"gpu": 18e-6, "cpu": 8e-6}
_FLOOR = 2.5e-6  # the shortest kernel of a GPU
_TO_DEVICE = 12e9  # bytes per second from the host's memory to a GPU's
_HIDDEN = 0.5  # the part of backward behind which gradients can travel
_CACHED = 2**20  # bytes of an operator that a CPU's cache still holds
_LATENCY = {"gpu": 8e-6, "cpu": 60e-6}  # of one hop of the ring


@dataclass(frozen=True, slots=True)
class Rates:
    """What one worker's device reaches: operations and bytes per second, seconds per operator."""

    kind: Literal["cpu", "gpu"]
    product: Mapping[str, float]
    convolution: Mapping[str, float]
    bandwidth: float
    cache_bandwidth: float
    dispatch: float
    step: float
    link: float
    memory: float | None
    measured: bool

    @classmethod
    def published(cls, spec: Spec) -> Rates:
        """Return the rates of a device of the table, at assumed shares of its peaks."""
        share = spec.worker_share
        bandwidth = spec.bandwidth * _BANDWIDTH[spec.kind]
        bandwidth = bandwidth if spec.kind == "gpu" else min(bandwidth, _CORE_BANDWIDTH)
        peaks = {name: peak * share for name, peak in spec.flops.items()}
        return cls(
            kind=spec.kind,
            product={name: peak * _PRODUCT[spec.kind] for name, peak in peaks.items()},
            convolution={
                name: peak * (_CONVOLUTION if name == "fp32" else _TENSOR_CORES) for name, peak in peaks.items()
            },
            bandwidth=bandwidth,
            cache_bandwidth=bandwidth if spec.kind == "gpu" else 3 * bandwidth,
            dispatch=_DISPATCH[spec.kind],
            step=0.0,
            link=spec.link * _LINK,
            memory=spec.memory,
            measured=False,
        )

    @classmethod
    def calibrated(cls, found: Calibration, spec: Spec | None) -> Rates:
        """Return measured rates; the links are the table's, or those of a shared memory."""
        return cls(
            kind=found.kind,
            product=found.product,
            convolution={name: rate * _TRAINED[found.kind] for name, rate in found.convolution.items()},
            bandwidth=found.bandwidth,
            cache_bandwidth=max(found.cache_bandwidth, found.bandwidth),
            dispatch=found.dispatch,
            step=found.step,
            link=spec.link * _LINK if spec else found.bandwidth / 8,
            memory=found.memory,
            measured=True,
        )

    def seconds(self, call: Call, precision: str) -> float:
        """Return the seconds of one call, dispatch left out."""
        rates = self.convolution if call.family == "convolution" else self.product
        moved = call.bytes / (self.cache_bandwidth if call.bytes < _CACHED else self.bandwidth)
        arithmetic = (call.flops or 0.0) / self._rate(rates, call, precision)
        return max(_FLOOR if self.kind == "gpu" else 0.0, arithmetic, moved)

    def _rate(self, rates: Mapping[str, float], call: Call, precision: str) -> float:
        if call.family not in ("matmul", "convolution", "attention"):
            return rates["fp32"]  # element-wise work never sees the tensor cores
        wanted = {"bfloat16": "bf16", "float16": "fp16"}.get(call.dtype, "fp32")
        if wanted == "fp32" and (precision == "tf32" or call.family == "convolution"):
            wanted = "tf32"
        return rates.get(wanted, rates["fp32"])


@dataclass(frozen=True, slots=True)
class Split:
    """Where the seconds of a step go."""

    compute: float
    communication: float
    input: float
    overhead: float

    @property
    def seconds(self) -> float:
        return self.compute + self.communication + self.input + self.overhead


def split(counts: Counts, rates: Rates, workers: int, precision: str = "fp32", network: float | None = None) -> Split:
    """Return the parts of a step; `network` is the slowest link in bytes per second, else the device's own."""
    kernels = {phase: _kernels(counts, rates, precision, phase) for phase in ("forward", "backward", "update")}
    compute = sum(kernels.values())
    dispatched = rates.step + rates.dispatch * counts.operators
    overhead = dispatched if rates.kind == "cpu" else joined(compute, dispatched) - compute
    shared = ring(counts.gradient_bytes, workers, network or rates.link, rates.kind)
    exposed = max(shared - _HIDDEN * kernels["backward"], 0.1 * shared)
    late = max(entering(counts, rates) - compute - exposed - overhead, 0.0)
    return Split(compute, exposed, late, overhead)


def entering(counts: Counts, rates: Rates) -> float:
    """Return the seconds in which a batch reaches the device, beside the step before; reading it is not counted."""
    return counts.input_bytes / _TO_DEVICE if rates.kind == "gpu" else 0.0


def joined(kernels: float, dispatched: float) -> float:
    """Return the seconds of two things that go on partly side by side."""
    return float((kernels**SIDE_BY_SIDE + dispatched**SIDE_BY_SIDE) ** (1 / SIDE_BY_SIDE))


def _kernels(counts: Counts, rates: Rates, precision: str, phase: str) -> float:
    return sum(rates.seconds(call, precision) * call.calls for call in counts.calls if call.phase == phase)


def ring(moved: float, workers: int, link: float, kind: Literal["cpu", "gpu"] = "gpu") -> float:
    """Return the seconds in which n workers add up so many bytes in a ring."""
    return 2 * (workers - 1) / workers * moved / link + 2 * (workers - 1) * _LATENCY[kind]
