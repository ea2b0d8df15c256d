"""A few real steps of a workload on this machine: their median, after the first ones are thrown away.

Steps are taken until three medians of ten in a row agree within 2 %, or the seconds are up; a GPU is
waited for after each. The first steps pay for memory, tuning and caches and say nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.optim import Optimizer

from cotune.devices import Precision
from cotune.modelling.counting.workload import Optimiser, Workload, autocast, optimiser_of
from cotune.modelling.step_law import StepTime

_GROUP = 10
_AGREE = 0.02
_LEAST_STEPS = 3
_WARM_UP = 3


class Stepper:
    """A workload on a device, ready to take steps."""

    def __init__(
        self,
        workload: Workload,
        batch: int,
        device: str = "cpu",
        *,
        precision: Precision = "fp32",
        optimiser: Optimiser = "momentum",
        parallel: Callable[[nn.Module, Optimizer], nn.Module] | None = None,
    ) -> None:
        torch.manual_seed(0)
        self.workload, self.device, self.precision = workload, torch.device(device), precision
        self.model = workload.build().to(self.device).train()
        self.optimiser = optimiser_of(optimiser, self.model.parameters())
        if parallel is not None:
            self.model = parallel(self.model, self.optimiser)
        self.inputs = tuple(tensor.to(self.device) for tensor in workload.batch(batch))

    def step(self) -> None:
        """Take one step and wait until it is done."""
        self.optimiser.zero_grad()
        with autocast(self.precision, self.device.type):
            loss = self.workload.loss(self.model, self.inputs)
        torch.autograd.backward(loss)
        self.optimiser.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def seconds_of(work: Callable[[], object], times: int, device: str) -> float:
    """Return the seconds in which a device has done some work so many times."""
    began = time.perf_counter()
    for _ in range(times):
        work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - began


@contextmanager
def cores(count: int) -> Iterator[None]:
    """Let torch compute on `count` cores, as one worker of the local engine does on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def measure(
    workload: Workload,
    batch: int,
    device: str = "cpu",
    *,
    precision: Precision = "fp32",
    optimiser: Optimiser = "momentum",
    seconds: float = 5.0,
) -> StepTime:
    """Return the median seconds of a step of one worker, measured for about `seconds`."""
    with cores(1):
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        stepper = Stepper(workload, batch, device, precision=precision, optimiser=optimiser)
        taken = _steps(stepper.step, seconds)
        peak = float(torch.cuda.max_memory_allocated()) if device == "cuda" else None
    middle = statistics.median(taken)
    middling = sorted(abs(one / middle - 1) for one in taken)[len(taken) // 2]
    return StepTime(batch, 1, middle, 1.4826 * middling, peak)


def _steps(step: Callable[[], None], seconds: float) -> list[float]:
    """Return the seconds of steps once they have settled."""
    began = time.perf_counter()
    taken: list[float] = []
    while True:
        before = time.perf_counter()
        step()
        now = time.perf_counter()
        taken.append(now - before)
        late = now - began > seconds and len(taken) > _LEAST_STEPS
        if late or _settled(taken):
            break
    saved = taken[min(_WARM_UP, len(taken) - _LEAST_STEPS) :]
    return saved[-3 * _GROUP :]


def _settled(taken: list[float]) -> bool:
    if len(taken) < _WARM_UP + 3 * _GROUP:
        return False
    medians = [statistics.median(taken[-(group + 1) * _GROUP : len(taken) - group * _GROUP]) for group in range(3)]
    return max(medians) <= min(medians) * (1 + _AGREE)
