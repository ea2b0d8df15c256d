"""Seconds of a step by the batch, through steps that were measured, and how far to trust them.

    T^p = a^p + (c b)^p       p = 1 on a CPU, 1.5 on a GPU: launching and computing go on partly side by side
    several workers           T + k (n - 1) / n

a is launching, which a GPU's host does at a pace that drifts from one measurement to the next: by 7 % on a host that
does nothing else, by 20 % on one whose cores are busy. A drift of d moves ln T by d (a / T)^p, so a step that is all
arithmetic is none the less certain for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cotune.modelling.roofline import SIDE_BY_SIDE
from cotune.predict.countdown import LAUNCHING_DRIFT
from cotune.types import Config, Source

_LINE = 0.08  # of the law through measured batches, inside them
_PER_DOUBLING = 0.10
_CLOCK = 0.03
_COUNTED_RING = 0.7  # of a communication that was only counted


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step of so many examples on each of so many workers: median seconds, spread of their logarithm, memory."""

    batch: int
    workers: int
    seconds: float
    spread: float
    peak_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class StepLaw:
    """The law through the steps of one worker; `launching` is a^p / T^p where one batch cannot tell."""

    times: tuple[StepTime, ...]
    power: float
    fixed: float
    slope: float
    launching: float

    @classmethod
    def of(cls, times: Sequence[StepTime], kind: Literal["cpu", "gpu"], launching: float) -> StepLaw:
        """Return the law through measured steps; one batch alone gives a step that grows with the batch."""
        power = SIDE_BY_SIDE if kind == "gpu" else 1.0
        raised = np.array([time.seconds**power for time in times])
        if len({time.batch for time in times}) == 1:
            return cls(tuple(times), power, 0.0, float(raised[0] / times[0].batch ** power), launching)
        from scipy.optimize import nnls  # takes longer to load than a model to count; most tiers do without

        shares = np.array([[1.0, time.batch**power] for time in times])
        (fixed, slope), _ = nnls(shares / raised[:, None], np.ones(len(times)))
        return cls(tuple(times), power, float(fixed), float(slope), launching)

    def seconds(self, batch: int) -> float:
        """Return the seconds of one worker's step: as measured, or by the law."""
        same = [time.seconds for time in self.times if time.batch == batch]
        if same:
            return sum(same) / len(same)
        return float((self.fixed + self.slope * batch**self.power) ** (1 / self.power))

    def ring(self, together: Sequence[StepTime]) -> float:
        """Return k of the ring k (n - 1) / n, the mean over the probes of several workers; it is never negative."""
        found = [(time.seconds - self.seconds(time.batch)) * time.workers / (time.workers - 1) for time in together]
        return max(sum(found) / len(found), 0.0)

    def trust(self, config: Config, times: Sequence[StepTime], counted: float) -> tuple[Source, float]:
        """Return where seconds come from and the spread of their logarithm; `counted` is the share only counted."""
        noise = math.hypot(max(time.spread for time in times) / 2, self.drift(config.batch_size))
        if any((time.batch, time.workers) == (config.batch_size, config.workers) for time in times):
            return "measured", math.hypot(_CLOCK, noise)
        batches = [time.batch for time in self.times]
        outside = _doublings(config.batch_size, batches)
        most = max(time.workers for time in times)
        further = max(math.log2(config.workers / most), 0.0) if most > 1 else 0.0
        ends = 1.0 if len(batches) > 1 else 3.0
        wider = math.hypot(_LINE * ends, noise, _PER_DOUBLING * (outside + further), _COUNTED_RING * counted)
        inside = outside == 0 and config.workers <= most
        return ("interpolated" if inside else "extrapolated"), wider

    def drift(self, batch: int) -> float:
        """Return how far the logarithm of a step moves with the pace of launching: on a CPU there is no other pace."""
        if self.power == 1.0:
            return 0.0
        known = len({time.batch for time in self.times}) > 1
        return LAUNCHING_DRIFT * (
            self.fixed / (self.fixed + self.slope * batch**self.power) if known else self.launching
        )


def _doublings(batch: int, seen: Sequence[int]) -> float:
    return max(math.log2(min(seen) / batch), math.log2(batch / max(seen)), 0.0)


def measured_at(times: Sequence[StepTime]) -> str:
    """Return in words which steps were measured."""
    alone = ", ".join(str(batch) for batch in sorted({time.batch for time in times if time.workers == 1}))
    together = sorted({(time.workers, time.batch) for time in times if time.workers > 1})
    probed = "".join(f"; {workers} workers at batch {batch}" for workers, batch in together)
    return f"steps measured here at batch {alone}{probed}"
