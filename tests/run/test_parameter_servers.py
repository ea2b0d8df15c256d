"""Parameter servers, really started: the same weights as all-reduce, and learning without waiting."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cotune.run.engines.local import Local
from cotune.run.launch import Ended, Launch, Reported
from cotune.run.local.messages import Record
from cotune.types import Config, Job, axes_of
from left_behind import writing_to

from launching import Played, until_ended  # isort: skip

Run = Callable[..., Played]
TRAIN = (sys.executable, "-m", "cotune.workloads.train", "--test-limit", "200", "--lr", "0.02")


@pytest.fixture
def train(local: Local, tmp_path: Path) -> Run:
    """Return a function that trains LeNet-5 on some digits."""

    def run(
        workers: int, servers: int = 0, epochs: int = 2, each: Any = lambda _: None, limit: str = "250", **axes: bool
    ) -> Played:
        words = (*TRAIN, "--limit", limit, "--batch-size", "{batch_size}", "--epochs", "{epochs}")
        job = Job("servers", words, folder=str(tmp_path))
        config = Config.data_parallel(32 // workers, workers, servers=servers, axes=axes_of(axes))
        name = f"{workers}-{servers}-{axes}"
        local.start(Launch(name, job, config, epochs, tmp_path / name))
        return Played(tmp_path / name, until_ended(local, name, each))

    return run


def weights(played: Played) -> torch.Tensor:
    assert played.ended.outcome == "done", played.ended
    state = torch.load(played.folder / "checkpoint" / "last.pt", weights_only=True)["model"]
    return torch.cat([tensor.flatten() for tensor in state.values()])


def test_synchronous_servers_and_all_reduce_give_the_same_weights(train: Run) -> None:
    expected = weights(train(2))
    for servers in (1, 3):
        torch.testing.assert_close(weights(train(2, servers)), expected, rtol=0, atol=1e-7)
    torch.testing.assert_close(weights(train(1, 2)), weights(train(1)), rtol=0, atol=1e-7)


def test_asynchronous_servers_learn_too(train: Run) -> None:
    played = train(2, 2, epochs=8, asynchronous=True)
    accuracies = [event.accuracy for event in played.events if isinstance(event, Reported) and event.accuracy]
    assert len(accuracies) == 8
    assert max(accuracies) > 0.6
    assert Record.read(played.folder, 3) is not None


def test_asynchronous_workers_stop_in_the_middle_of_an_epoch(train: Run, local: Local) -> None:
    def stop(event: object) -> None:
        if isinstance(event, Reported) and event.epoch:
            local.stop(event.launch, grace=60)

    played = train(2, 1, epochs=1000, limit="1400", each=stop, asynchronous=True)
    assert played.ended.outcome == "stopped"
    left = torch.load(played.folder / "checkpoint" / "last.pt", weights_only=True)
    assert (left["epoch"], 0 < left["seen"] < 1400) == (0, True)


def test_a_killed_server_ends_the_launch_and_is_named(train: Run, tmp_path: Path) -> None:
    def kill(event: object) -> None:
        if isinstance(event, Reported) and event.epoch:
            for pid in writing_to(f"{tmp_path}/*/rank-3.log"):
                os.kill(pid, signal.SIGKILL)

    ended = train(2, 2, epochs=1000, each=kill).ended
    assert isinstance(ended, Ended)
    assert ended.outcome == "failed"
    assert "rank 3 was ended by SIGKILL" in str(ended.failure)
