"""Synthetic jobs whose truth is known, and the real grids of placements under COTUNE_DATA."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from cotune.modelling.layer_features import work
from cotune.modelling.layer_rows import SHAPES, WORDS, Facts, Layers
from cotune.types import Config, Evaluation, Job, Sample

EXAMPLES = 50_000
JOB = Job("synthetic", examples=EXAMPLES)
EXAMPLES_OF = {"cifar10": 50_000, "imagenet": 1_281_167, "yolov3": 16_551, "bert": 88_641}

Steps = Callable[[int, int], float]


def timed(step_seconds: Steps, configs: Iterable[tuple[int, int]], noise: float = 0.0, seed: int = 0) -> list[Sample]:
    """Return samples of configs (batch, workers) whose step takes what the function says."""
    rng = np.random.default_rng(seed)
    return [
        Sample(
            Config.data_parallel(batch, workers),
            epochs=1.0,
            epoch_seconds=EXAMPLES
            / (batch * workers)
            * step_seconds(batch, workers)
            * float(np.exp(noise * rng.normal())),
        )
        for batch, workers in configs
    ]


def grid(batches: Sequence[int] = (16, 32, 64, 128), workers: Sequence[int] = (1, 2, 4, 8)) -> list[tuple[int, int]]:
    return [(batch, count) for batch in batches for count in workers]


def plain_step(batch: int, workers: int) -> float:
    return 0.01 + 0.0005 * batch + 0.02 * (workers - 1) / workers


def accuracy(batch: float, epoch: float) -> float:
    progress = epoch / (1 + batch / 512 + 8 / batch)
    return float(0.95 - 0.6 * (progress + 0.5) ** -0.8)


def trained(
    batches: Iterable[int],
    epochs: int = 20,
    value: Callable[[float, float], float] = accuracy,
    noise: float = 0.0,
    seed: int = 0,
) -> list[Sample]:
    """Return samples on one worker with a learning curve of whole epochs."""
    rng = np.random.default_rng(seed)
    return [
        Sample(
            Config.data_parallel(batch, 1),
            epochs=float(epochs),
            epoch_seconds=EXAMPLES / batch * plain_step(batch, 1),
            curve=tuple(
                Evaluation(epoch, value(batch, epoch) + noise * float(rng.normal()), 0.0)
                for epoch in range(1, epochs + 1)
            ),
        )
        for batch in batches
    ]


def layers(kind: str, count: int, seed: int = 0) -> Layers:
    """Return random layers on two devices whose time is half a millisecond and twice their roofline."""
    rng = np.random.default_rng(seed)
    devices = {"slow": Facts(2000, 100, 1000, 800), "fast": Facts(8000, 400, 4000, 1200)}

    def value(name: str) -> str:
        if name in WORDS:
            return str(rng.choice(WORDS[name]))
        most = {"batch": 64, "kernel": 7, "stride": 4, "bias": 1, "bidirectional": 1, "size_in": 64}.get(name, 512)
        return str(rng.integers(0 if most == 1 else 1, most + 1))

    parts = []
    for number, (name, facts) in enumerate(devices.items()):
        rows = [{column: value(column) for column in SHAPES[kind]} for _ in range((count + number) // 2)]
        parts.append(Layers.of(kind, rows, name, facts))
    whole = Layers.joined(parts)
    return Layers(kind, whole.shape, whole.device, whole.facts, 0.5 + 2 * work(whole).roofline(whole.facts))


def placements(application: str) -> list[Sample]:
    """Return the measured grid of an application: fewest nodes, of those the most even."""
    if "COTUNE_DATA" not in os.environ:
        pytest.skip("needs COTUNE_DATA")
    table = Path(os.environ["COTUNE_DATA"]) / "pollux" / application / "placements.csv"
    if not table.exists():
        pytest.skip(f"needs {table.name} of Pollux under COTUNE_DATA")
    chosen: dict[tuple[int, int], tuple[tuple[int, int], float]] = {}
    with table.open() as file:
        for row in csv.DictReader(file):
            on_nodes = [int(digit) for digit in row["placement"]]
            key = int(row["local_bsz"]), sum(on_nodes)
            rank = len(on_nodes), max(on_nodes) - min(on_nodes)
            if key not in chosen or rank < chosen[key][0]:
                chosen[key] = rank, float(row["step_time"])
    return [
        Sample(
            Config.data_parallel(batch, workers, "t4"),
            epochs=1.0,
            epoch_seconds=EXAMPLES_OF[application] / (batch * workers) * step_time,
        )
        for (batch, workers), (_, step_time) in sorted(chosen.items())
    ]
