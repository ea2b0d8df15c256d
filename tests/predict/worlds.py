"""The real grids of placements under COTUNE_DATA, beside the synthetic jobs of `cotune.testing`."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from cotune.testing.worlds import EXAMPLES, JOB, accuracy, grid, plain_step, timed, trained
from cotune.types import Config, Sample

__all__ = ["EXAMPLES", "EXAMPLES_OF", "JOB", "accuracy", "grid", "placements", "plain_step", "timed", "trained"]
EXAMPLES_OF = {"cifar10": 50_000, "imagenet": 1_281_167, "yolov3": 16_551, "bert": 88_641}


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
