"""Measure the layers of a network on one type of device: the program that `cotune pipeline profile` runs.

    compute     every layer as a stage of its own, then all as one: forward, backward and step, on this
                unit's rows, while all units of the type do the same
    cuts        what crosses each cut goes to another unit and as much comes back, as in a pipeline; the
                first unit, which is of the type in question, is timed

Rows are made up (`zipf`), activations are those of the network's first weights.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from cotune.placement.pipeline.channels import NullChannel
from cotune.placement.pipeline.clicks import made_up
from cotune.placement.pipeline.ctr import network
from cotune.placement.pipeline.layers import Flow, PipelineNetwork, Segment
from cotune.placement.pipeline.meeting import connect, from_first, gathered, join
from cotune.placement.pipeline.placed import BatchShare, Placed, rows
from cotune.placement.pipeline.unit import PipelineRank, StageNeighbour, Unit, together
from cotune.types import Stage
from cotune.workloads.program import exit_code
from cotune.workloads.workers import leave

_WARM_UP = 3
_LEAST, _MOST = 5, 50  # repetitions
_SLOTS = 4


def compute(
    model: PipelineNetwork, position: PipelineRank, batches: Sequence[int], seconds: float
) -> list[dict[str, Any]]:
    """Return the seconds of every layer at every batch; each takes about `seconds` to measure."""
    found: list[dict[str, Any]] = []
    for batch in batches:
        begin, end = rows(batch, position.units, position.unit)
        flows = _flows(model, end - begin, position)
        spans: list[tuple[int | None, int, int]] = [(layer, layer, layer) for layer in range(model.depth)]
        for layer, first, last in [*spans, (None, 0, model.depth - 1)]:
            stage = Stage(position.device.type, position.units, first, last)
            unit = Unit(model, stage, position, seed=0, optimiser="adam", lr=1e-4)
            share = BatchShare(0, 0, end - begin)
            unit.before = [] if unit.is_first else [StageNeighbour(NullChannel(flows[first]), share)]
            unit.after = [] if unit.is_last else [StageNeighbour(NullChannel(_like(unit.segment, flows[first])), share)]
            took = _repeated(unit, flows[first], batch, seconds)
            found.append({"layer": layer, "batch": batch, "units": position.units} | together(gathered(took)))
    return found


def cuts(
    model: PipelineNetwork, placed: Placed, position: PipelineRank, batches: Sequence[int], seconds: float
) -> list[dict[str, Any]]:
    """Return the seconds that the first of two units takes for both ways of every cut at every batch."""
    found: list[dict[str, Any]] = []
    for batch in batches:
        flows = _flows(model, batch, position)
        for layer in range(1, model.depth):
            before, after = connect(placed, position, batch, slots=_SLOTS)
            channel = (*before, *after)[0].channel
            back = {name: tensor for name, tensor in flows[layer].items() if name not in model.columns}
            mine, its = (flows[layer], back) if position.stage == 0 else (back, flows[layer])
            took: list[tuple[float, float]] = []
            began = time.perf_counter()
            while len(took) < _WARM_UP + _LEAST or from_first(_more(took, began, seconds)):
                sent, received = channel.sending, channel.receiving
                channel.send(mine)
                got = channel.receive()
                assert got.flow.keys() == its.keys()
                gathered(None)
                took.append((channel.sending - sent, channel.receiving - received))
            channel.close()
            sending, receiving = (median(each) for each in zip(*took[_WARM_UP:], strict=True))
            size = sum(tensor.nbytes for tensor in flows[layer].values())
            found.append({"layer": layer, "batch": batch, "bytes": size, "sending": sending, "receiving": receiving})
    return found


def _flows(model: PipelineNetwork, examples: int, position: PipelineRank) -> list[Flow]:
    """Return what enters every layer, for so many examples."""
    columns = made_up(examples, position.unit)
    flows: list[Flow] = [{name: columns[name].to(position.device) for name in model.columns}]
    with torch.no_grad():
        for layer in range(model.depth - 1):
            flows.append(Segment(model, layer, layer, seed=0).to(position.device)(flows[-1]))
    return flows


def _like(segment: Segment, flow: Flow) -> Flow:
    """Return small gradients for what leaves a stage."""
    with torch.no_grad():
        return {name: torch.full_like(each, 1e-4) for name, each in segment(flow).items() if each.is_floating_point()}


def _repeated(unit: Unit, flow: Flow, batch: int, seconds: float) -> dict[str, float]:
    """Return the median seconds of one batch, after warming up."""
    _once(unit, flow, batch, _WARM_UP)
    began = time.perf_counter()
    _once(unit, flow, batch, 1)
    count = from_first(int(min(max(seconds / (time.perf_counter() - began), _LEAST), _MOST)))
    if unit.position.device.type != "cpu":  # it works behind our back: time them all together
        return _once(unit, flow, batch, count)
    each = [_once(unit, flow, batch, 1) for _ in range(count)]
    return {name: median(took[name] for took in each) for name in each[0]}


def _once(unit: Unit, flow: Flow, batch: int, count: int) -> dict[str, float]:
    before = dict(unit.spent.seconds)
    began = time.perf_counter()
    for number in range(count):
        unit.forward(number, flow, batch, stash=not unit.is_last)
        unit.backward(number)
        unit.step(number)
    if unit.position.device.type != "cpu":
        torch.get_device_module(unit.position.device).synchronize()
    whole = (time.perf_counter() - began) / count
    sync = (unit.spent.seconds["sync"] - before["sync"]) / count
    return {"compute": whole - sync, "sync": sync}


def _more(took: Sequence[object], began: float, seconds: float) -> bool:
    return time.perf_counter() - began < seconds and len(took) < _MOST


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure as the command line says and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cotune.placement.pipeline.measure", description=__doc__)
    parser.add_argument("what", choices=("compute", "cuts"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--batches", required=True, help="such as 256,1024")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each number")
    parser.add_argument("--result", type=Path, required=True)
    asked = parser.parse_args(arguments)
    return exit_code("measure", lambda: measure(asked))


def measure(asked: argparse.Namespace) -> None:
    """Measure as one unit, and let the first one write it down."""
    batches = [int(batch) for batch in asked.batches.split(",")]
    model = network(asked.model)
    placed = Placed.of_environment(model.depth, "cpu")
    position = join(placed)
    assert isinstance(position, PipelineRank)  # nothing is measured of table servers
    if asked.what == "compute":
        found = compute(model, position, batches, asked.seconds)
    else:
        found = cuts(model, placed, position, batches, asked.seconds)
    if position.stage == position.unit == 0:
        asked.result.write_text(json.dumps(found))
    leave()


if __name__ == "__main__":
    sys.exit(main())
