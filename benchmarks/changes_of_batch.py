"""How true is rule 6 of replay? Real changes of batch, predicted from the plain curves of both batches.

    python benchmarks/changes_of_batch.py [RECORDINGS]

`changes-of-batch-h200.csv` holds trainings that change their batch on the way, the rate by the job's rule. The rule
says where on the new batch's plain curve such a run goes on; that curve then says what it has one epoch after the
change, and at its end. No target is asked, so the way is the length of the curve. Predictions are the mean over five
seeds of the new batch, which no changed run took part in. `seeds` is the deviation between those seeds at the same
point: no prediction of one run can be closer than that. The last column is the error one epoch after the change
without the cap: from the first point of the new curve that has the accuracy it had, or from the end where none has.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotune.cli.output import say, table
from cotune.recording import Recording, read
from cotune.recording.moving import accuracy_after, first_with, landing
from cotune.types import Floats

CHANGES = "changes-of-batch-h200.csv"


@dataclass(frozen=True)
class Change:
    """A training that changed its batch after an epoch; its accuracy after epoch 1, 2, ..."""

    network: str
    before: int
    after: int
    epoch: int
    accuracy: Floats


def changes(file: Path) -> list[Change]:
    """Return the trainings of a file, in its order."""
    curves: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    with file.open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            curves[row["network"], row["global_batch"], row["switch"]].append(float(row["accuracy"]))
    found = []
    for (network, batch, switch), accuracy in curves.items():
        epoch, after, _ = switch.split(":")
        found.append(Change(network, int(batch), int(after), int(epoch), np.array(accuracy)))
    return found


def plain(recording: Recording, batch: int) -> Floats:
    """Return the plain curves of a batch, one row for each seed; they rise."""
    seeds = recording.curves[None][batch]
    return np.array([recording.job.sign * curve.at_whole_epochs(recording.last_epoch) for curve in seeds])


def predicted(change: Change, recording: Recording, later: int, *, capped: bool = True) -> Floats:
    """Return the accuracy so many epochs after the change, by each seed of the new batch."""
    old = recording.job.sign * change.accuracy[: change.epoch]
    way = np.concatenate([old, np.full(recording.last_epoch - len(old), old[-1])])  # as long as the curve would be
    found = []
    for new in plain(recording, change.after):
        there = landing(way, new, float(change.epoch), None)
        if not capped:
            there = min(first_with(new, float(old[-1])), float(recording.last_epoch))
        value = accuracy_after(new, min(max(there, 0.0) + later, float(recording.last_epoch)))
        found.append(np.nan if value is None else recording.job.sign * value)
    return np.array(found)


def compared(change: Change, recording: Recording) -> tuple[list[str], dict[str, float]]:
    """Return a line of the table, and its errors."""
    left = recording.last_epoch - change.epoch
    cells = [change.network, f"{change.before} to {change.after}", str(change.epoch)]
    errors: dict[str, float] = {}
    for name, later in (("next", 1), ("end", left)):
        told, measured = predicted(change, recording, later), float(change.accuracy[change.epoch + later - 1])
        free = float(np.mean(predicted(change, recording, later, capped=False)))
        errors |= {name: float(told.mean()) - measured, f"{name}, no cap": free - measured}
        errors[f"{name}, seeds"] = float(np.std(told, ddof=1))
        cells += [f"{told.mean():.4f}", f"{measured:.4f}", f"{errors[name]:+.4f}", f"{errors[f'{name}, seeds']:.4f}"]
    return [*cells, f"{errors['next, no cap']:+.4f}"], errors


def main(folder: Path) -> None:
    """Print the table, and the errors of each network."""
    lines: list[list[str]] = []
    by_network: dict[str, list[dict[str, float]]] = defaultdict(list)
    for change in changes(folder / CHANGES):
        cells, errors = compared(change, read(folder / f"{change.network}-slices"))
        lines.append(cells)
        by_network[change.network].append(errors)
    columns = ("network", "batch", "after epoch", "next epoch: predicted", "measured", "error", "seeds")
    more = ("end: predicted", "measured", "error", "seeds", "next epoch, no cap: error")
    table((*columns, *more), lines, title="accuracy after a change of batch (lm-text: loss)")
    for network, own in by_network.items():
        sizes = {name: np.mean([abs(one[name]) for one in own]) for name in own[0]}
        say(
            f"{network}: mean error {sizes['next']:.4f} one epoch later ({sizes['next, no cap']:.4f} without the cap), "
            f"{sizes['end']:.4f} at the end; between seeds {sizes['end, seeds']:.4f}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "recordings")
