"""Training through a pipeline of real processes against training in one, in plain PyTorch."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import islice

import pytest
import torch
from torch import nn
from torch.optim import SGD

from cotune.placement.pipeline.checkpoint import LanePlace
from cotune.placement.pipeline.clicks import read, shards_of
from cotune.placement.pipeline.ctr import network
from cotune.placement.pipeline.layers import LOSS, Segment
from cotune.placement.pipeline.saving import load
from cotune.placement.pipeline.shards import Lane, dealt, joined
from cotune.run.launch import Event, Started
from cotune.run.processes import descendants
from left_behind import writing_to
from piped import Piped

Pipe = Callable[..., Piped]
BATCH, BATCHES, DATA, LR = 48, 6, "zipf:8x64", 0.05
SMALL = {
    "ctrdnn": "ctrdnn(width=16, rows=500)",
    "two_emb": "two_emb(rows=500)",
    "matchnet": "matchnet(rows=500)",
    "nce": "nce(width=8, rows=500)",
}


def alone(model: str, lanes: int) -> tuple[list[float], nn.Module]:
    """Train in this process with nothing but PyTorch, on the same batches."""
    found = network(model)
    whole = Segment(found, 0, found.depth - 1, seed=0)
    optimiser = SGD(whole.parameters(), lr=LR)
    streams = [
        Lane(dealt(shards_of(DATA), lane, lanes, seed=0), read, BATCH // lanes, LanePlace()) for lane in range(lanes)
    ]
    losses = []
    for flows in islice(zip(*streams, strict=True), BATCHES):
        optimiser.zero_grad()
        loss = whole(joined(flows))[LOSS].mean()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses, whole


def same(one: nn.Module, parts: list[nn.Module]) -> bool:
    mine = [weights for part in one.parts for weights in part.state_dict().values()]  # type: ignore[union-attr]
    theirs = [weights for part in parts for weights in part.state_dict().values()]
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("ctrdnn", [("cpu", 2, 0, 0), ("cpu", 1, 1, 2), ("cpu", 3, 3, 4)]),
        ("ctrdnn", [("cpu", 3, 0, 4)]),
        ("two_emb", [("cpu", 1, 0, 2), ("cpu", 2, 3, 7)]),
        ("matchnet", [("cpu", 1, 0, 4), ("cpu", 2, 5, 11)]),
        ("nce", [("cpu", 2, 0, 1), ("cpu", 2, 2, 4)]),
    ],
)
def test_synchronous_training_equals_training_in_one_process(
    pipe: Pipe, name: str, stages: list[tuple[str, int, int, int]]
) -> None:
    lanes = stages[0][1]
    flags = ("--mode", "sync", "--micro-batches", 4, "--in-flight", 3, "--optimiser", "sgd", "--lr", LR)
    run = pipe(stages, "--model", SMALL[name], "--data", DATA, "--batch-size", BATCH, "--batches", BATCHES, *flags)
    losses, whole = alone(SMALL[name], lanes)
    assert run.losses == pytest.approx(losses, rel=1e-5)
    assert same(whole, load(run.folder / "weights", network(SMALL[name])))


def test_several_batches_in_flight_learn_as_fast_and_always_the_same(pipe: Pipe) -> None:
    stages = [("cpu", 2, 0, 0), ("cpu", 1, 1, 4)]
    common = ("--model", SMALL["ctrdnn"], "--data", "zipf:32x256", "--batch-size", 128, "--batches", 64)
    rate = ("--optimiser", "adagrad", "--lr", 0.02)
    several = pipe(stages, *common, *rate, "--mode", "async", "--in-flight", 5).losses
    again = pipe(stages, *common, *rate, "--mode", "async", "--in-flight", 5).losses
    one = pipe(stages, *common, *rate, "--mode", "async", "--in-flight", 1).losses
    assert several == again
    assert several != one
    for some in (slice(16, 32), slice(32, 48), slice(48, 64)):
        assert sum(several[some]) == pytest.approx(sum(one[some]), rel=0.03)
    assert sum(several[48:]) < 0.95 * sum(several[:16])


def test_one_batch_in_flight_is_synchronous_too(pipe: Pipe) -> None:
    stages = [("cpu", 1, 0, 1), ("cpu", 2, 2, 4)]
    flags = ("--mode", "async", "--in-flight", 1, "--optimiser", "sgd", "--lr", LR, "--lanes", 2)
    run = pipe(stages, "--model", SMALL["ctrdnn"], "--data", DATA, "--batch-size", BATCH, "--batches", BATCHES, *flags)
    assert run.losses == pytest.approx(alone(SMALL["ctrdnn"], 2)[0], rel=1e-5)


def test_a_killed_unit_ends_the_pipeline_with_its_name(pipe: Pipe) -> None:
    def kill(event: Event) -> None:
        if isinstance(event, Started):
            victims = [pid for pid in writing_to("rank-2.log") if pid in descendants(os.getpid())]
            os.kill(victims[-1], signal.SIGKILL)

    stages = [("cpu", 2, 0, 0), ("cpu", 1, 1, 4)]
    run = pipe(stages, "--model", SMALL["ctrdnn"], "--data", DATA, "--batch-size", 64, "--batches", 100_000, each=kill)
    assert run.ended.outcome == "failed"
    assert "rank 2 was ended by SIGKILL" in str(run.ended.failure)


@pytest.mark.parametrize(
    ("stages", "flags", "words"),
    [
        ([("cpu", 1, 0, 1), ("cpu", 1, 3, 4)], (), "cover layers 0..1, 3..4"),
        ([("cpu", 1, 0, 1), ("xpu", 1, 2, 4)], (), "torch sees none here"),
        ([("cpu", 2, 0, 4)], ("--batch-size", 1, "--mode", "async"), "cannot be shared by 2 units"),
        ([("cpu", 2, 0, 4)], ("--lanes", 65, "--mode", "async"), "65 lanes cannot share the 64 examples"),
        ([("cpu", 1, 0, 4)], ("--data", "/nowhere/*.csv"), "no shards at /nowhere"),
        ([("cpu", 1, 0, 4)], ("--optimiser", "lion"), "invalid choice"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(
    pipe: Pipe, stages: list[tuple[str, int, int, int]], flags: tuple[object, ...], words: str
) -> None:
    run = pipe(stages, "--model", SMALL["ctrdnn"], "--data", DATA, "--batches", 2, "--batch-size", 64, *flags)
    assert run.ended.outcome == "failed"
    assert words in str(run.ended.failure)
