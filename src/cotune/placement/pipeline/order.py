"""Who does what when: forwards run ahead by a fixed number, then one backward for each forward.

    ahead(stage) = 1 + (in_flight - 1) x (stages - 1 - stage) / (stages - 1)      rounded

The first stage runs `in_flight` batches ahead, the last one none, the others between. The order of
a stage does not depend on the clock, so its units, which meet in collective calls, agree
without a word, and two runs give the same weights.

Rows are dealt evenly: unit u of k has the rows rows x u // k to rows x (u + 1) // k of every batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

Action = tuple[Literal["forward", "backward"], int]


class BatchShare(NamedTuple):
    """Rows of a batch that one unit has in common with a unit of a neighbouring stage, counted from its own first."""

    unit: int
    begin: int
    end: int


def ahead(stage: int, stages: int, in_flight: int) -> int:
    """Return how many batches a stage has begun when it first waits for a gradient."""
    return 1 if stages == 1 else 1 + round((in_flight - 1) * (stages - 1 - stage) / (stages - 1))


def actions(stage: int, stages: int, in_flight: int, count: int) -> Iterator[Action]:
    """Yield what a stage does for `count` batches, one after another."""
    lead = min(count, ahead(stage, stages, in_flight))
    yield from (("forward", number) for number in range(lead))
    for number in range(count):
        yield "backward", number
        if number + lead < count:
            yield "forward", number + lead


def rows(total: int, units: int, unit: int) -> tuple[int, int]:
    """Return the first row of a unit, and the row after its last."""
    return total * unit // units, total * (unit + 1) // units


def shared(total: int, units: int, unit: int, others: int) -> list[BatchShare]:
    """Return which rows of a unit each of the `others` units of a neighbouring stage has."""
    first, end = rows(total, units, unit)
    found = []
    for other in range(others):
        begin, stop = rows(total, others, other)
        if max(first, begin) < min(end, stop):
            found.append(BatchShare(other, max(first, begin) - first, min(end, stop) - first))
    return found
