"""One unit of a pipeline from its first batch to its last, in stretches between checkpoints.

sync     a batch is cut into micro-batches, several in flight, and one step is taken for all: as in one process
async    several batches are in flight, every stage steps after each: faster, with gradients a few steps old

At the end of a stretch no batch is in flight, in either mode.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import cotune
from cotune.placement.pipeline.channels import Told
from cotune.placement.pipeline.checkpoint import LanePlace
from cotune.placement.pipeline.placed import Placed, actions, ahead
from cotune.placement.pipeline.shards import Prefetched
from cotune.placement.pipeline.unit import Unit

_REPORT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class PipelineFlags:
    """What the command line asks for."""

    model: str
    data: str
    batch_size: int
    batches: int
    mode: str
    in_flight: int
    micro_batches: int
    lanes: int | None
    optimiser: str
    lr: float
    seed: int
    device: str
    save: Path | None
    result: Path | None
    checkpoint: Path | None
    checkpoint_every: int | None
    resume: bool

    @property
    def rows(self) -> int:
        """Return the examples that pass at a time."""
        return self.batch_size // self.micro_batches if self.mode == "sync" else self.batch_size

    @property
    def training(self) -> dict[str, Any]:
        """Return what must stay the same for a training to go on."""
        names = ("model", "data", "batch_size", "mode", "optimiser", "lr", "seed")
        return {name: getattr(self, name) for name in names} | {"rows": self.rows}


@dataclass(frozen=True, slots=True)
class UnitInput:
    """What a unit of the first stage reads: its rows of every batch, and which lanes they come from."""

    columns: Prefetched
    lanes: tuple[int, ...]

    @property
    def places(self) -> dict[int, LanePlace]:
        """Return where each of its lanes goes on."""
        return dict(zip(self.lanes, self.columns.places, strict=True))


class Pipeline:
    """One unit of the pipeline; `stopping` is whether it was told to end at the next checkpoint."""

    def __init__(self, settings: PipelineFlags, placed: Placed, unit: Unit) -> None:
        self.settings, self.placed, self.unit = settings, placed, unit
        self.given: UnitInput | None = None  # on the first stage
        self.losses: dict[int, float] = {}
        self.finished: list[list[float]] = []  # when each batch was done, for every stretch
        self.stopping = False
        self._reported = 0.0
        self._length = 0

    def run(self, first: int, end: int) -> None:
        """Train the batches of a stretch."""
        settings, stage, stages = self.settings, self.unit.position.stage, len(self.placed.stages)
        self.finished.append([])
        self._length = end - first
        if settings.mode == "async":
            stash = ahead(stage, stages, settings.in_flight) > 1
            for action, number in actions(stage, stages, settings.in_flight, end - first):
                self._do(action, first + number, stash=stash)
                if action == "backward":
                    self._step(first + number, first + number + 1)
        else:
            for batch in range(first, end):
                begin = batch * settings.micro_batches
                for action, micro in actions(stage, stages, settings.in_flight, settings.micro_batches):
                    self._do(action, begin + micro, stash=False)
                self._step(begin + settings.micro_batches - 1, batch + 1)
        self._note(self.unit.pause())
        if self.unit.is_first:
            self._report(end)  # a checkpoint is due: here it may be told to stop

    def rate(self) -> float | None:
        """Return the examples per second while the pipeline was full, in its longest stretch."""
        times = max(self.finished, key=len, default=[])
        if len(times) < 2:
            return None
        begin, end = self._window(len(times))
        return (end - begin) * self.settings.batch_size / (times[end - 1] - times[begin - 1])

    def _do(self, action: str, number: int, *, stash: bool) -> None:
        if action == "backward":
            self.unit.backward(number)
            return
        flow = {}
        if self.given is not None:
            flow = self.given.columns.take()
            self.unit.spent.on("input")
        self.unit.forward(number, flow, self.settings.batch_size, stash=stash)

    def _step(self, number: int, done: int) -> None:
        self.unit.step(number)
        if not self.unit.is_first:
            return
        self._note(self.unit.news())
        self.finished[-1].append(self._now())
        if self.finished[-1][-1] - self._reported > _REPORT_SECONDS:
            self._report(done)

    def _report(self, done: int) -> None:
        self._reported = time.perf_counter()
        known = {"loss": self.losses[max(self.losses)]} if self.losses else {}
        self.stopping |= cotune.report(done / self.settings.batches, **known)

    def _note(self, told: Told) -> None:
        micro = self.settings.micro_batches if self.settings.mode == "sync" else 1
        self.losses |= {int(number) // micro: loss for number, loss in told}

    def _now(self) -> float:
        """Return the time; where it counts, after the device has done what it was told."""
        if self.unit.position.device.type != "cpu" and len(self.finished[-1]) + 1 in self._window(self._length):
            torch.get_device_module(self.unit.position.device).synchronize()
        return time.perf_counter()

    def _window(self, finished: int) -> tuple[int, int]:
        """Return two counts of finished batches between which the pipeline is full and warm."""
        settings = self.settings
        draining = ahead(0, len(self.placed.stages), settings.in_flight) if settings.mode == "async" else 0
        end = finished - draining if finished - draining > 2 else finished
        return max(1, min(end - 1, end // 3)), end
