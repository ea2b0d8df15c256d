"""Measuring what the machine at hand really does, in a few seconds.

    product      operations per second of a large matrix product, per precision
    convolution  the same of a 3 x 3 convolution, forward
    bandwidth    bytes per second of adding two long vectors, and of short ones that stay in the cache
    dispatch     seconds per operator of training steps that have hardly any arithmetic, and
    step         what such a step takes beside them: a line through steps of few and of many operators

A CPU is measured as one worker has it: one core. The best of some repeats
counts, since a machine is only ever slowed down by others.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cotune.devices.present import Calibration
from cotune.identity import timestamp
from cotune.modelling.counting.timing import Stepper, cores, seconds_of
from cotune.modelling.counting.trace import count
from cotune.modelling.counting.workload import Workload, sum_of_outputs

_REPEATS = 5
_LEAST_SECONDS = 0.02  # one repeat is long enough for any clock
_FEW, _MANY = 2, 24  # layers


def calibrate(device: str = "auto") -> Calibration:
    """Measure this machine: its first GPU where there is one (`auto`), else one core of its CPU."""
    gpu = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    with cores(1):
        return _measured(gpu)


def _measured(gpu: bool) -> Calibration:
    where = "cuda" if gpu else "cpu"
    side, channels, long = (8192, 256, 2**28) if gpu else (768, 64, 2**24)
    product = {name: _product(where, side, name) for name in _precisions(gpu)}
    convolution = {name: _convolution(where, channels, name) for name in _precisions(gpu)}
    memory = torch.cuda.mem_get_info()[1] if gpu else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    dispatch, step = _dispatch(where)
    return Calibration(
        name=torch.cuda.get_device_name() if gpu else _processor(),
        kind="gpu" if gpu else "cpu",
        threads=1,
        product=product,
        convolution=convolution,
        bandwidth=_bandwidth(where, long),
        cache_bandwidth=_bandwidth(where, 2**14 if not gpu else 2**22),
        dispatch=dispatch,
        step=step,
        memory=float(memory),
        torch=torch.__version__,
        measured=timestamp(),
    )


def _precisions(gpu: bool) -> tuple[str, ...]:
    return ("fp32", "tf32", "bf16", "fp16") if gpu and torch.cuda.get_device_capability()[0] >= 8 else ("fp32",)


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def _numbers(precision: str) -> Any:
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)


def _product(where: str, side: int, precision: str) -> float:
    left, right = (torch.randn(side, side, device=where, dtype=_numbers(precision)) for _ in range(2))
    with _tf32(precision == "tf32"):
        return 2.0 * side**3 / _seconds(lambda: left @ right, where)


def _convolution(where: str, channels: int, precision: str) -> float:
    examples, side = (64, 56) if where == "cuda" else (4, 28)
    pictures = torch.randn(examples, channels, side, side, device=where, dtype=_numbers(precision))
    layer = torch.nn.Conv2d(channels, channels, 3, padding=1, device=where, dtype=_numbers(precision))
    flops = 2.0 * 9 * channels**2 * side**2 * examples
    with _tf32(precision == "tf32"), torch.no_grad():
        return flops / _seconds(lambda: layer(pictures), where)


def _bandwidth(where: str, numbers: int) -> float:
    first, second, out = (torch.ones(numbers, device=where) for _ in range(3))
    return 3 * 4.0 * numbers / _seconds(lambda: torch.add(first, second, out=out), where)


def _dispatch(where: str) -> tuple[float, float]:
    """Return the seconds per operator and per step of training that has hardly any arithmetic."""
    few, many = (_tiny(layers) for layers in (_FEW, _MANY))
    short, long = (_seconds(Stepper(workload, 2, where).step, where) for workload in (few, many))
    operators, more = count(few, 2).operators, count(many, 2).operators
    slope = max((long - short) / (more - operators), 0.1 * long / more)  # a disturbed clock must not make it nothing
    return slope, max(short - slope * operators, 0.0)


def _tiny(layers: int) -> Workload:
    return Workload(
        "tiny",
        lambda: nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(4, 4), nn.ReLU()))),
        lambda batch: (torch.randn(batch, 4),),
        sum_of_outputs,
    )


def _seconds(work: Callable[[], Any], where: str) -> float:
    """Return the seconds of one call, the best of some repeats, each long enough for the clock."""

    def took(times: int) -> float:
        return seconds_of(work, times, where) / times

    took(2)
    times = max(1, round(_LEAST_SECONDS / max(took(1), 1e-9)))
    return min(took(times) for _ in range(_REPEATS))


def _processor() -> str:
    """Return the name of this machine's processor."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text(encoding="utf-8").splitlines() if described.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
