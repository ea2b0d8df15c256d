"""What every strategy promises: a decision within the space and the epochs, or a refusal; the same again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cotune.lab.bench.lab import RecordedLab
from cotune.lab.bench.truth import Truth
from cotune.recording import AccuracyRow, Recording, TimeRow, read, write
from cotune.types import Device, Job

EXAMPLES = 20_000


class StrategyConformance:
    """Name your strategy: `algorithm = Manual()`."""

    algorithm: Any

    def test_it_decides_within_the_space_and_the_same_again(self, tmp_path: Path) -> None:
        recording = synthetic(tmp_path / "world")
        truth = Truth(recording)
        goal = next(iter(truth.goals()))
        first, second = (self.algorithm.decide(RecordedLab(recording, truth, goal)) for _ in range(2))
        assert first == second
        assert first.reason
        if first.config is not None:
            assert first.config in list(truth.configs)
            assert 1 <= first.epochs <= goal.max_epochs


def synthetic(folder: Path) -> Recording:
    """Return a recording with known laws: seconds fall with workers, epochs to a target grow with the batch."""
    rng = np.random.default_rng(1)
    times = [
        TimeRow(workers, batch, step_seconds(workers, batch) * EXAMPLES / (workers * batch), "t4")
        for workers in (1, 2, 4, 8)
        for batch in (16, 32, 64, 128, 256)
    ]
    points = [
        AccuracyRow(batch, epoch, accuracy_at(batch, epoch) + 0.003 * float(rng.normal()))
        for batch in (16, 64, 256, 1024, 2048)
        for epoch in range(1, 41)
    ]
    return read(write(folder, Job(folder.name, examples=EXAMPLES), times, points, (Device("t4"),)))


def step_seconds(workers: int, batch: int) -> float:
    """Return the law of a step's seconds."""
    return 0.01 + 0.0004 * batch + (0.02 if workers > 1 else 0.0) + (0.03 if workers > 4 else 0.0)


def accuracy_at(batch: int, epoch: float) -> float:
    """Return the law of learning."""
    return float(0.95 - 0.8 / (1 + epoch / (1 + batch / 400)) ** 0.9)
