"""Train a network as a pipeline: the program that every unit runs.

python -m cotune.placement.pipeline.train --model ctrdnn --batches 200             alone: all layers in one process
cotune run --placement plan.json -- python -m cotune.placement.pipeline.train --model ctrdnn --batches 200

sync     a batch is cut into micro-batches, several in flight, and one step is taken for all: as in one process
async    several batches are in flight, every stage steps after each: faster, with gradients a few steps old
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import torch

import cotune
from cotune.errors import UsageError
from cotune.placement.pipeline.channels import Told
from cotune.placement.pipeline.clicks import read, shards_of
from cotune.placement.pipeline.ctr import network
from cotune.placement.pipeline.layers import Flow, PipelineNetwork
from cotune.placement.pipeline.meeting import connect, from_first, gathered, join
from cotune.placement.pipeline.order import ahead, deeds, rows
from cotune.placement.pipeline.placed import Placed
from cotune.placement.pipeline.saving import save
from cotune.placement.pipeline.shards import Prefetched, pieces, rows_of_lane
from cotune.placement.pipeline.unit import OPTIMISERS, PipelineRank, Unit, together
from cotune.workloads.program import exit_code, positive
from cotune.workloads.workers import leave

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

    @property
    def rows(self) -> int:
        """Return the examples that pass at a time."""
        return self.batch_size // self.micro_batches if self.mode == "sync" else self.batch_size


class Pipeline:
    """One unit of the pipeline, from the first batch to the last."""

    def __init__(self, settings: PipelineFlags, placed: Placed, unit: Unit, columns: Prefetched | None) -> None:
        self.settings, self.placed, self.unit, self.columns = settings, placed, unit, columns
        self.losses: dict[int, float] = {}
        self.finished: list[float] = []  # when each batch was done
        self._reported = 0.0

    def run(self) -> None:
        """Train, and part."""
        settings, stage, stages = self.settings, self.unit.seat.stage, len(self.placed.stages)
        if settings.mode == "async":
            stash = ahead(stage, stages, settings.in_flight) > 1
            for deed, number in deeds(stage, stages, settings.in_flight, settings.batches):
                self._do(deed, number, stash=stash)
                if deed == "backward":
                    self._step(number)
        else:
            for batch in range(settings.batches):
                first = batch * settings.micro_batches
                for deed, micro in deeds(stage, stages, settings.in_flight, settings.micro_batches):
                    self._do(deed, first + micro, stash=False)
                self._step(first + settings.micro_batches - 1)
        self.unit.goodbye()
        self._note(self.unit.news(last=True))

    def rate(self) -> float:
        """Return the examples per second while the pipeline was full."""
        begin, end = self._window()
        return (end - begin) * self.settings.batch_size / (self.finished[end - 1] - self.finished[begin - 1])

    def _do(self, deed: str, number: int, *, stash: bool) -> None:
        if deed == "backward":
            self.unit.backward(number)
            return
        flow = {}
        if self.columns is not None:
            flow = self.columns.take()
            self.unit.spent.on("input")
        self.unit.forward(number, flow, self.settings.batch_size, stash=stash)

    def _step(self, number: int) -> None:
        self.unit.step(number)
        if not self.unit.is_first:
            return
        self._note(self.unit.news())
        self.finished.append(self._now())
        if self.finished[-1] - self._reported > _REPORT_SECONDS:
            self._reported = self.finished[-1]
            known = {"loss": self.losses[max(self.losses)]} if self.losses else {}
            cotune.report(len(self.finished) / self.settings.batches, **known)

    def _note(self, told: Told) -> None:
        micro = self.settings.micro_batches if self.settings.mode == "sync" else 1
        self.losses |= {int(number) // micro: loss for number, loss in told}

    def _now(self) -> float:
        """Return the time; where it counts, after the device has done what it was told."""
        if self.unit.seat.device.type != "cpu" and len(self.finished) + 1 in self._window():
            torch.get_device_module(self.unit.seat.device).synchronize()
        return time.perf_counter()

    def _window(self) -> tuple[int, int]:
        """Return two counts of finished batches between which the pipeline is full and warm."""
        settings = self.settings
        draining = ahead(0, len(self.placed.stages), settings.in_flight) if settings.mode == "async" else 0
        end = settings.batches - draining if settings.batches - draining > 2 else settings.batches
        return max(1, min(end - 1, end // 3)), end


def train(settings: PipelineFlags) -> None:
    """Train as one unit of the pipeline that the environment describes."""
    model = network(settings.model)
    placed = Placed.of_environment(model.depth, settings.device)
    placed.check(model.depth, settings.rows, int(os.environ.get("WORLD_SIZE", "1")))
    seat = join(placed)
    is_coordinator = seat.stage == seat.unit == 0
    shards = from_first(shards_of(settings.data) if is_coordinator else None)
    unit = Unit(
        model, placed.stages[seat.stage], seat, seed=settings.seed, optimiser=settings.optimiser, lr=settings.lr
    )
    unit.before, unit.after = connect(placed, seat, settings.rows, slots=settings.in_flight + 1)
    pipeline = Pipeline(settings, placed, unit, _input(settings, model, seat, shards) if unit.is_first else None)
    cotune.report(epoch=0)
    pipeline.run()
    if settings.save is not None:
        save(settings.save, unit)
    spent = gathered(unit.spent.typical())
    if is_coordinator:
        _tell(settings, placed, pipeline, spent)
    leave()


def _input(settings: PipelineFlags, model: PipelineNetwork, seat: PipelineRank, shards: Sequence[str]) -> Prefetched:
    """Return this unit's rows of every batch: the pieces of its lanes."""
    lanes = settings.lanes or seat.units
    if lanes % seat.units:
        raise UsageError(f"{lanes} lanes cannot be dealt evenly to {seat.units} units of the first stage")

    def lane(number: int) -> Iterator[Flow]:
        begin, end = rows(settings.rows, lanes, number)
        flows = rows_of_lane(shards, read, number, lanes, settings.seed)
        return pieces(({name: flow[name] for name in model.columns} for flow in flows), repeat(end - begin))

    each = lanes // seat.units
    return Prefetched([lane(number) for number in range(each * seat.unit, each * (seat.unit + 1))])


def _tell(settings: PipelineFlags, placed: Placed, pipeline: Pipeline, spent: Sequence[dict[str, float]]) -> None:
    """Say how it went, and write it down where that was asked."""
    losses = [pipeline.losses[batch] for batch in sorted(pipeline.losses)]
    rate = pipeline.rate() if settings.batches > 1 else None
    cotune.report(1.0, loss=losses[-1])
    shown = "" if rate is None else f"{rate:,.0f} examples/s, "
    print(
        f"{settings.model}: {settings.batches} batches of {settings.batch_size}, {shown}loss {losses[-1]:.4f}",
        flush=True,
    )
    if settings.result is None:
        return
    stages = []
    for number, stage in enumerate(placed.stages):
        seconds = together([spent[rank] for rank in placed.ranks(number)])
        stages.append(
            {"device": stage.device, "units": stage.workers, "first": stage.first, "last": stage.last} | seconds
        )
    result: dict[str, Any] = {"examples_per_second": rate, "losses": losses, "stages": stages}
    settings.result.write_text(json.dumps(result))


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as the command line says and return the exit code."""
    settings = parse(arguments)
    return exit_code("train", lambda: train(settings))


def parse(arguments: Sequence[str] | None = None) -> PipelineFlags:
    """Return the settings on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m cotune.placement.pipeline.train",
        description="Train a network as a pipeline, or alone in one process.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    flag = parser.add_argument
    flag("--model", default="ctrdnn", help="ctrdnn, two_emb, matchnet, nce, with settings if any, or module:function")
    flag("--data", default="zipf", help="zipf, zipf:SHARDSxROWS, criteo, or a URL of CSV or npz shards")
    flag("--batch-size", type=positive, default=1000, help="examples of a batch, over all units")
    flag("--batches", type=positive, default=100, help="batches to train")
    flag("--mode", choices=("sync", "async"), default="async", help="one step for a whole batch, or steps as they come")
    flag("--in-flight", type=positive, default=4, help="batches (async) or micro-batches (sync) under way at a time")
    flag("--micro-batches", type=positive, default=4, help="parts into which sync cuts a batch")
    flag("--lanes", type=positive, help="streams of input that make up a batch (as many as the first stage has units)")
    flag("--optimiser", choices=OPTIMISERS, default="adam", help="tables get its sparse form")
    flag("--lr", type=float, default=1e-4, help="learning rate")
    flag("--seed", type=int, default=0, help="of the first weights and the order of the shards")
    flag("--device", default="cpu", help="where all layers run when there is no placement")
    flag("--save", type=Path, help="folder for the trained weights")
    flag("--result", type=Path, help="file for speeds and losses, as JSON")
    settings = PipelineFlags(**vars(parser.parse_args(arguments)))
    if settings.mode == "sync" and settings.batch_size % settings.micro_batches:
        parser.error(
            f"a batch of {settings.batch_size} cannot be cut into {settings.micro_batches} equal micro-batches"
        )
    return settings


if __name__ == "__main__":
    sys.exit(main())
