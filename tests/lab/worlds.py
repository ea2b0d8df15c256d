"""A recording with known laws: seconds fall with workers, epochs to the target grow with the batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cotune.lab.testing import EXAMPLES, accuracy_at, step_seconds
from cotune.recording import AccuracyRow, TimeRow, write
from cotune.types import Device, Job

WORKERS = (1, 2, 4, 8)
BATCHES = (16, 32, 64, 128, 256)


def world(folder: Path, seeds: int = 2) -> Path:
    """Write the recording and return its folder."""
    rng = np.random.default_rng(1)
    times = [
        TimeRow(w, b, step_seconds(w, b) * EXAMPLES / (w * b) * float(np.exp(0.01 * rng.normal())), "t4", repeat=str(r))
        for w in WORKERS
        for b in BATCHES
        for r in range(2)
    ]
    points = [
        AccuracyRow(g, e, accuracy_at(g, e) + 0.003 * float(rng.normal()), str(seed))
        for g in (16, 64, 256, 1024, 2048)
        for seed in range(seeds)
        for e in range(1, 41)
    ]
    job = Job(folder.name, examples=EXAMPLES)
    return write(folder, job, times, points, [Device("t4", per_node=4)])
