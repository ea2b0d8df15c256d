"""Time by operator type, as Fathom shows it: torch's profiler over a few steps.

    share of a type = its own seconds / the seconds of all types

On a GPU the seconds are those of its kernels. How few types make up most of the time says what
is worth optimising: in Fathom's workloads a handful make nine tenths.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from torch.profiler import ProfilerActivity, profile

from cotune.devices import Precision
from cotune.modelling.counting.timing import Stepper, cores, seconds_of
from cotune.modelling.counting.workload import Workload

_WARM_UP = 2
_OPERATOR = re.compile(r"\w+::\w+")  # aten::mm, or one of the user's own; not the engine's nodes


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One type of operator: calls and seconds of one step, its share and that of all before it and itself."""

    name: str
    calls: float
    seconds: float
    share: float
    cumulative: float


@dataclass(frozen=True, slots=True)
class StepProfile:
    """Where the seconds of a step go, the longest first; `step_seconds` is without the profiler."""

    device: str
    batch: int
    step_seconds: float
    operators: tuple[OperatorTime, ...]

    def types_for(self, share: float) -> int:
        """Return how many operator types make up such a share of the time."""
        return next((n for n, one in enumerate(self.operators, 1) if one.cumulative >= share - 1e-12), 0)


def profiled(
    workload: Workload,
    batch: int,
    device: str = "cpu",
    *,
    steps: int = 3,
    threads: int = 1,
    precision: Precision = "fp32",
) -> StepProfile:
    """Return where the seconds of a step go on this machine."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own remarks are none of the user's business
    with cores(threads):
        stepper = Stepper(workload, batch, device, precision=precision)
        seconds_of(stepper.step, _WARM_UP, device)
        plain = seconds_of(stepper.step, steps, device) / steps
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
        with profile(activities=activities, acc_events=True) as recorded:
            seconds_of(stepper.step, steps, device)
    on_gpu = device == "cuda"
    found = [
        (
            str(event.key).removeprefix("aten::"),
            event.count / steps,
            (event.self_device_time_total if on_gpu else event.self_cpu_time_total) / steps / 1e6,
        )
        for event in recorded.key_averages()
        if _OPERATOR.fullmatch(str(event.key))
    ]
    return StepProfile(device, batch, plain, _ranked(found))


def _ranked(found: Sequence[tuple[str, float, float]]) -> tuple[OperatorTime, ...]:
    total = sum(seconds for _, _, seconds in found) or 1.0
    ranked: list[OperatorTime] = []
    reached = 0.0
    for name, calls, seconds in sorted(found, key=lambda one: -one[2]):
        if seconds <= 0:
            continue
        reached += seconds
        ranked.append(OperatorTime(name, calls, seconds, seconds / total, min(reached / total, 1.0)))
    return tuple(ranked)
