"""Lightning: the metrics.csv of its CSVLogger, with the hparams.yaml beside it.

Epochs are counted from 0 there. There are no times: a curve comes without speed, unless
the run's seconds are told. Its TensorBoardLogger, or cotune's callback, keeps times.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from cotune.errors import InvalidFile
from cotune.interop.logged import Logged, Point, below, hyperparameters


def runs(source: Path) -> Iterator[Logged]:
    """Yield the runs of a metrics.csv, or of all below a folder."""
    for path in below(source, "metrics.csv"):
        try:
            with path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InvalidFile(f"{path} is not a CSV file: {error}") from None
        if rows and not {"epoch", "step"} <= rows[0].keys():
            raise InvalidFile(f"{path} has no columns `epoch` and `step`: it is not of Lightning's CSVLogger")
        points = tuple(_point(row) for row in rows if row["epoch"])
        yield Logged(path.parent.name, points, params=hyperparameters(path.parent))


def _point(row: dict[str, str]) -> Point:
    numbers = {name: float(text) for name, text in row.items() if text and name not in ("epoch", "step")}
    return Point(numbers, float(row["step"]) + 1, epoch=float(row["epoch"]) + 1)
