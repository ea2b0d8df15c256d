"""Pipelines on emulated units: shares of a core, and links between them."""

from __future__ import annotations

from pathlib import Path

from cotune.placement.profiles import TypeEntry
from cotune.placement.staged import TRAIN, Staged, Wanted, completed, engines, measured
from cotune.types import Stage

MODEL = "ctrdnn(width=64, rows=1000, groups=[1,4])"


def test_a_slow_link_bounds_the_throughput(tmp_path: Path) -> None:
    """273 numbers of 4 bytes and a label of 8 cross the cut for every example: 8,800 bits, each way."""
    far = TypeEntry(name="far", price_per_hour=1.0, device="cpu", cores=0.4, link="8mbit")
    staged = Staged((Stage("far", 1, 0, 0), Stage("far", 1, 1, 1)), {"far": far})
    flags = ("--model", MODEL, "--batch-size", "64", "--batches", "24", "--data", "zipf:1x512")
    with engines() as there:
        result = completed(there, staged, (*TRAIN, *flags), tmp_path / "run")
    fastest = 8e6 / 8800
    assert 0.5 * fastest < result["examples_per_second"] < 1.1 * fastest
    assert result["stages"][1]["receiving"] > 0.5 * 64 / fastest


def test_a_share_of_a_core_is_measured_as_one(tmp_path: Path) -> None:
    kinds = [
        TypeEntry(name="cpu", price_per_hour=0.04, limit=1),
        TypeEntry(name="slow", price_per_hour=0.01, limit=1, device="cpu", cores=0.05),
    ]
    layers = [{"name": "embedding"}, {"name": "rest"}]
    with engines() as there:
        found = measured(there, Wanted(MODEL, layers, kinds, (1,), (64,), 0.1), tmp_path)
    one, twentieth = (found.stage(kind, 1, 1, 1) for kind in ("cpu", "slow"))
    assert twentieth > 3 * one
