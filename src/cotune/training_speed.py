"""What reports of a start, or the lines of a log, say of its speed.

    pace     = slope of training time over epochs        evaluation and checkpoints left out
    start-up = where that slope meets epoch 0            from the moment the job's own code began

The first part also pays for start-up and caching and is dropped as soon as there is more; what
is left is a median over reports, weighted by the epochs they cover. Lines that were read at once have
one time between them, that of the last: the others tell nothing of the pace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

TELLING_SECONDS = 0.5  # between the first and the last line that were read, as lines are read up to every 0.25 s
_WARM_UP = 0.2  # the share of a start that is not typical


@dataclass(frozen=True, slots=True)
class Mark:
    """A report that tells progress: epochs done in this start, seconds of pure training up to it, and their parts."""

    epoch: float
    training: float
    parts: Mapping[str, float] = field(default_factory=dict)


def speed(marks: Sequence[Mark], up: float) -> tuple[float | None, float | None]:
    """Return (seconds per epoch, start-up seconds) as far as the marks tell them; the job began at `up`."""
    reads = _last_of_each_read(marks)
    steps = [
        (later.epoch - earlier.epoch, later.training - earlier.training)
        for earlier, later in pairwise(reads)
        if later.epoch > earlier.epoch
    ]
    if sum(seconds for _, seconds in steps) <= 0:
        if not marks or marks[-1].epoch <= 0:
            return None, None
        # One report, or several read at once: they also hold the start of the job's own code.
        return (marks[-1].training - up) / marks[-1].epoch, 0.0
    passed = list(accumulate((epochs for epochs, _ in steps), initial=0.0))
    warm = [step for step, before in zip(steps, passed, strict=False) if before >= _WARM_UP * passed[-1]]
    pace = _weighted_median([(seconds / epochs, epochs) for epochs, seconds in warm or steps[-1:]])
    if pace <= 0:  # what was told of evaluations may be longer than the time between two reports
        pace = sum(seconds for _, seconds in steps) / passed[-1]
    first = reads[0]
    return pace, max(first.training - up - first.epoch * pace, 0.0)


def told_seconds(marks: Sequence[Mark]) -> float:
    """Return the seconds of training between the first and the last mark, 0 where all were read at once."""
    return marks[-1].training - marks[0].training if marks else 0.0


def _last_of_each_read(marks: Sequence[Mark]) -> list[Mark]:
    """Return the marks without those that are followed by another of the same time."""
    followed = [mark.training == later.training for mark, later in pairwise(marks)]
    return [mark for mark, goes_on in zip(marks, [*followed, False], strict=False) if not goes_on]


def shares(marks: Sequence[Mark]) -> dict[str, float]:
    """Return the seconds of an epoch that each part takes, without the warm-up as soon as there is more."""
    if not marks or marks[-1].epoch <= 0:
        return {}
    last = marks[-1]
    warm = (mark for mark in marks if _WARM_UP * last.epoch <= mark.epoch < last.epoch)
    since = next(warm, Mark(0.0, 0.0))
    epochs = last.epoch - since.epoch
    return {name: (spent - since.parts.get(name, 0.0)) / epochs for name, spent in last.parts.items()}


def _weighted_median(values: Sequence[tuple[float, float]]) -> float:
    half = sum(weight for _, weight in values) / 2
    reached = 0.0
    for value, weight in sorted(values):
        reached += weight
        if reached >= half:
            return value
    raise ValueError("no values")
