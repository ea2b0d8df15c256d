"""A pipeline that was broken off, or goes on in another layout, trains as if nothing had happened."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cotune.errors import InvalidFile
from cotune.placement.pipeline.checkpoint import PipelineCheckpoint, commit, read, spans, weights_after
from cotune.placement.pipeline.ctr import network
from cotune.placement.pipeline.saving import load
from piped import Piped

Pipe = Callable[..., Piped]
MODEL = "two_emb(rows=300)"
COMMON = ("--model", MODEL, "--data", "zipf:6x50", "--batch-size", 24, "--lanes", 2, "--seed", 3)
SYNC = ("--mode", "sync", "--micro-batches", 2, "--optimiser", "adam", "--lr", 0.01)
THREE = [("cpu", 2, 0, 1), ("cpu", 1, 2, 4), ("cpu", 2, 5, 7)]


def same_weights(one: Piped, other: Piped) -> bool:
    pairs = zip(*(load(run.folder / "weights", network(MODEL)) for run in (one, other)), strict=True)
    return all(
        torch.allclose(a, b, rtol=1e-4, atol=1e-6)
        for mine, theirs in pairs
        for a, b in zip(mine.state_dict().values(), theirs.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("mode", [SYNC, ("--mode", "async", "--in-flight", 3, "--optimiser", "adagrad", "--lr", 0.05)])
def test_tables_in_servers_of_their_own_learn_the_same(pipe: Pipe, mode: tuple[object, ...]) -> None:
    inside = pipe(THREE, *COMMON, *mode, "--batches", 5)
    served = pipe(THREE, *COMMON, *mode, "--batches", 5, servers=2)
    assert served.losses == pytest.approx(inside.losses, rel=1e-5)
    assert same_weights(inside, served)


def test_a_training_goes_on_with_other_cuts_units_and_servers_where_it_was(pipe: Pipe, tmp_path: Path) -> None:
    whole = pipe(THREE, *COMMON, *SYNC, "--batches", 7)
    kept = ("--checkpoint", tmp_path / "kept", "--checkpoint-every", 2, "--resume")
    first = pipe([("cpu", 1, 0, 2), ("cpu", 2, 3, 7)], *COMMON, *SYNC, *kept, "--batches", 3, servers=1)
    assert len(first.losses) == 3
    last = pipe([("cpu", 3, 0, 4), ("cpu", 1, 5, 7)], *COMMON, *SYNC, *kept, "--batches", 7)
    assert last.losses == pytest.approx(whole.losses, rel=1e-5), "the third batch's loss and all that follow"
    assert same_weights(whole, last)
    assert [path.name for path in (tmp_path / "kept").glob("batch-*")] == ["batch-00000007"]


def test_a_checkpoint_of_another_training_is_refused(pipe: Pipe, tmp_path: Path) -> None:
    kept = ("--checkpoint", tmp_path / "kept", "--checkpoint-every", 1, "--batches", 1)
    one = [("cpu", 1, 0, 7)]
    pipe(one, *COMMON, *SYNC, *kept)
    other = pipe(one, *COMMON, *SYNC, *kept, "--resume", "--lr", 0.5)
    assert "of a training with lr 0.01, not 0.5" in str(other.ended.failure)


def test_files_that_rank_0_cannot_see_are_no_checkpoint(tmp_path: Path) -> None:
    weights_after(tmp_path, 4).mkdir()
    (weights_after(tmp_path, 4) / "layer-0.pt").touch()
    commit(tmp_path, PipelineCheckpoint(4, (), (0.5,) * 4, {}), ["layer-0.pt"])
    weights_after(tmp_path, 8).mkdir()
    with pytest.raises(Exception, match="a disk that all nodes share"):
        commit(tmp_path, PipelineCheckpoint(8, (), (0.5,) * 8, {}), ["layer-0.pt"])
    found = read(tmp_path)
    assert found is not None
    assert found.batches == 4
    assert found.weights(tmp_path).is_dir()
    with pytest.raises(InvalidFile, match="batch size None, not 8"):
        found.require({"batch_size": 8})
    assert json.loads((tmp_path / "checkpoint.json").read_text())["batches"] == 4


def test_stretches_end_where_checkpoints_are_due() -> None:
    assert list(spans(0, 5, None)) == [(0, 5)]
    assert list(spans(0, 5, 2)) == [(0, 2), (2, 4), (4, 5)]
    assert list(spans(3, 9, 4)) == [(3, 4), (4, 8), (8, 9)]
