"""Train a network as a pipeline: the program that every unit and every table server runs.

python -m cotune.placement.pipeline.train --model ctrdnn --batches 200             alone: all layers in one process
cotune pipeline run plan.json -- --batches 200                                     as a plan says
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

import cotune
from cotune.errors import UsageError
from cotune.placement.pipeline import checkpoint as checkpoints
from cotune.placement.pipeline.checkpoint import LanePlace, PipelineCheckpoint
from cotune.placement.pipeline.clicks import read, shards_of
from cotune.placement.pipeline.ctr import network
from cotune.placement.pipeline.layers import Flow, PipelineNetwork
from cotune.placement.pipeline.meeting import connect, connect_servers, from_first, gathered, join
from cotune.placement.pipeline.placed import Placed, rows
from cotune.placement.pipeline.saving import restore, restore_rows, save, save_rows
from cotune.placement.pipeline.shards import Lane, Prefetched, dealt
from cotune.placement.pipeline.table_servers import TableServer
from cotune.placement.pipeline.training import Pipeline, PipelineFlags, UnitInput
from cotune.placement.pipeline.unit import OPTIMISERS, PipelineRank, Unit, optimisers, together
from cotune.workloads.program import exit_code, positive
from cotune.workloads.workers import leave


def train(settings: PipelineFlags) -> None:
    """Train as one process of the pipeline that the environment describes."""
    model = network(settings.model)
    placed = Placed.of_environment(model.depth, settings.device)
    placed.check(model.depth, settings.rows, int(os.environ.get("WORLD_SIZE", "1")))
    position = join(placed)
    is_coordinator = isinstance(position, PipelineRank) and position.stage == position.unit == 0
    shards, begun = from_first((shards_of(settings.data), _begun(settings)) if is_coordinator else None)
    if isinstance(position, int):
        _serve(settings, model, placed, position, begun)
        return
    pipeline = _pipeline(settings, model, placed, position, begun)
    if pipeline.unit.is_first:
        places = begun.lanes if begun else (LanePlace(),) * (settings.lanes or position.units)
        pipeline.given = _input(settings, model, position, shards, places)
    done = begun.batches if begun else 0
    cotune.report(epoch=done / settings.batches)
    for first, end in checkpoints.spans(done, settings.batches, settings.checkpoint_every):
        pipeline.run(first, end)
        done = end
        if settings.checkpoint is not None and settings.checkpoint_every:
            _keep(settings, pipeline, end, is_coordinator)
            if from_first(pipeline.stopping):
                break
    pipeline.unit.close()
    if settings.save is not None:
        save(settings.save, pipeline.unit)
    spent = gathered(pipeline.unit.spent.typical())
    if is_coordinator:
        _tell(settings, placed, pipeline, done, spent)
    leave()


def _begun(settings: PipelineFlags) -> PipelineCheckpoint | None:
    """Return what an earlier start has left to go on from, where that is asked for."""
    if not settings.resume or settings.checkpoint is None:
        return None
    found = checkpoints.read(settings.checkpoint)
    if found is not None:
        found.require(settings.training)
    return found


def _pipeline(
    settings: PipelineFlags,
    model: PipelineNetwork,
    placed: Placed,
    position: PipelineRank,
    begun: PipelineCheckpoint | None,
) -> Pipeline:
    """Return this process's unit with its lines, where the checkpoint left it if there is one."""
    unit = Unit(
        model, placed.stages[position.stage], position, seed=settings.seed, optimiser=settings.optimiser, lr=settings.lr
    )
    slots = settings.in_flight + 1
    unit.before, unit.after = connect(placed, position, settings.rows, slots)
    unit.servers += connect_servers(placed, asks=bool(unit.tables), device=position.device, slots=slots)[0]
    pipeline = Pipeline(settings, placed, unit)
    if begun is not None and settings.checkpoint is not None:
        restore(begun.weights(settings.checkpoint), unit)
        pipeline.losses = dict(enumerate(begun.losses))
    return pipeline


def _input(
    settings: PipelineFlags,
    model: PipelineNetwork,
    position: PipelineRank,
    shards: Sequence[str],
    places: Sequence[LanePlace],
) -> UnitInput:
    """Return this unit's rows of every batch: what it has of each lane's piece."""
    lanes = len(places)
    if lanes > settings.rows:
        raise UsageError(f"{lanes} lanes cannot share the {settings.rows} examples that pass at a time")
    begin, end = rows(settings.rows, position.units, position.unit)

    def columns(shard: str) -> Flow:
        flow = read(shard)
        return {name: flow[name] for name in model.columns}

    found = {}
    for lane, place in enumerate(places):
        first, stop = rows(settings.rows, lanes, lane)
        keep = slice(max(begin, first) - first, min(end, stop) - first)
        if max(begin, first) < min(end, stop):
            source = dealt(shards, lane, lanes, settings.seed, place.shard)
            found[lane] = Lane(source, columns, stop - first, place, keep)
    return UnitInput(Prefetched(list(found.values())), tuple(found))


def _keep(settings: PipelineFlags, pipeline: Pipeline, done: int, is_coordinator: bool) -> None:
    """Write this unit's part of a checkpoint; the coordinator lets it count when all have written theirs."""
    assert settings.checkpoint is not None
    names = save(checkpoints.weights_after(settings.checkpoint, done), pipeline.unit)
    told = gathered((names, {} if pipeline.given is None else pipeline.given.places))
    if is_coordinator:
        places: dict[int, LanePlace] = {lane: place for _, known in told for lane, place in known.items()}
        lanes = tuple(places[lane] for lane in sorted(places))
        losses = tuple(pipeline.losses[batch] for batch in range(done))
        kept = PipelineCheckpoint(done, lanes, losses, settings.training)
        checkpoints.commit(settings.checkpoint, kept, [name for each, _ in told for name in each])


def _serve(
    settings: PipelineFlags, model: PipelineNetwork, placed: Placed, number: int, begun: PipelineCheckpoint | None
) -> None:
    """Hold rows of the tables, answer the units, and take part in every checkpoint."""
    made = partial(optimisers, settings.optimiser, settings.lr, [])
    server = TableServer(model, placed, number, seed=settings.seed, optimisers=made)
    connect(placed, None, settings.rows, settings.in_flight + 1)
    lines = connect_servers(placed, asks=False, device=torch.device("cpu"), slots=settings.in_flight + 1)
    for stage, own in zip(server.stages, lines, strict=True):
        stage.lines = own
    if begun is not None and settings.checkpoint is not None:
        restore_rows(begun.weights(settings.checkpoint), server)
    for _, end in checkpoints.spans(begun.batches if begun else 0, settings.batches, settings.checkpoint_every):
        server.serve()
        if settings.checkpoint is not None and settings.checkpoint_every:
            names = save_rows(checkpoints.weights_after(settings.checkpoint, end), server)
            gathered((names, {}))
            if from_first(None):
                break
    server.close()
    if settings.save is not None:
        save_rows(settings.save, server)
    gathered({})
    leave()


def _tell(
    settings: PipelineFlags, placed: Placed, pipeline: Pipeline, done: int, spent: Sequence[dict[str, float]]
) -> None:
    """Say how it went, and write it down where that was asked."""
    losses = [pipeline.losses[batch] for batch in sorted(pipeline.losses)]
    rate = pipeline.rate()
    cotune.report(done / settings.batches, loss=losses[-1])
    shown = "" if rate is None else f"{rate:,.0f} examples/s, "
    print(f"{settings.model}: {done} batches of {settings.batch_size}, {shown}loss {losses[-1]:.4f}", flush=True)
    if settings.result is None:
        return
    stages = []
    for number, stage in enumerate(placed.stages):
        seconds = together([spent[rank] for rank in placed.ranks(number)])
        stages.append(
            {"device": stage.device, "units": stage.workers, "first": stage.first, "last": stage.last} | seconds
        )
    result: dict[str, Any] = {"examples_per_second": rate, "batches": done, "asked": settings.batches}
    result |= {"losses": losses, "stages": stages}
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
    own = os.environ.get("COTUNE_CHECKPOINT")
    flag("--checkpoint", type=Path, default=Path(own) if own else None, help="folder of checkpoints, on a shared disk")
    flag("--checkpoint-every", type=positive, help="batches from one checkpoint to the next (none are kept without)")
    again = os.environ.get("COTUNE_RESUME") == "1"
    flag("--resume", action="store_true", default=again, help="go on from the checkpoint in that folder, if any")
    settings = PipelineFlags(**vars(parser.parse_args(arguments)))
    if settings.mode == "sync" and settings.batch_size % settings.micro_batches:
        parser.error(
            f"a batch of {settings.batch_size} cannot be cut into {settings.micro_batches} equal micro-batches"
        )
    if settings.checkpoint_every and settings.checkpoint is None:
        parser.error("--checkpoint-every needs a folder: --checkpoint DIR")
    return settings


if __name__ == "__main__":
    sys.exit(main())
