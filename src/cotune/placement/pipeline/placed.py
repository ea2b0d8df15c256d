"""The stages of a pipeline as its processes are told them: by the variable COTUNE_PLACEMENT, as JSON.

Ranks count through the stages: the units of stage 0 first. Processes that hold nothing but rows of
embedding tables, where those are asked for, count on after them.

Who does what when: forwards run ahead by a fixed number, then one backward for each forward.

    ahead(stage) = 1 + (in_flight - 1) x (stages - 1 - stage) / (stages - 1)      rounded

The first stage runs `in_flight` batches ahead, the last one none, the others between. The order of
a stage does not depend on the clock, so its units, which meet in collective calls, agree
without a word, and two runs give the same weights.

Rows are dealt evenly: unit u of k has the rows rows x u // k to rows x (u + 1) // k of every batch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

from cotune.errors import UsageError
from cotune.types import Stage

PLACEMENT = "COTUNE_PLACEMENT"
Action = tuple[Literal["forward", "backward"], int]


@dataclass(frozen=True, slots=True)
class Placed:
    """The stages of a pipeline, whose devices are such as torch knows (cpu, cuda, xpu), and its table servers."""

    stages: tuple[Stage, ...]
    table_servers: int = 0

    @classmethod
    def of_environment(cls, depth: int, device: str) -> Placed:
        """Return what the environment says, or all layers on one unit of a device."""
        told = os.environ.get(PLACEMENT)
        return cls.from_json(told) if told else cls((Stage(device, 1, 0, depth - 1),))

    @classmethod
    def from_json(cls, text: str) -> Placed:
        told = json.loads(text)
        return cls(tuple(Stage(**stage) for stage in told["stages"]), told["table_servers"])

    def to_json(self) -> str:
        return json.dumps({"stages": [asdict(stage) for stage in self.stages], "table_servers": self.table_servers})

    @property
    def units(self) -> int:
        return sum(stage.workers for stage in self.stages)

    @property
    def processes(self) -> int:
        return self.units + self.table_servers

    def server(self, rank: int) -> int | None:
        """Return which of the table servers a rank is, or None for a unit of a stage."""
        return rank - self.units if rank >= self.units else None

    def ranks(self, stage: int) -> range:
        """Return the ranks of a stage's units."""
        first = sum(before.workers for before in self.stages[:stage])
        return range(first, first + self.stages[stage].workers)

    def stage_and_unit(self, rank: int) -> tuple[int, int]:
        """Return the stage of a rank, and its number there."""
        return next(
            (stage, rank - self.ranks(stage)[0]) for stage in range(len(self.stages)) if rank in self.ranks(stage)
        )

    def check(self, depth: int, rows: int, world: int) -> None:
        """Say what cannot work before anything starts."""
        covered = [layer for stage in self.stages for layer in range(stage.first, stage.last + 1)]
        if covered != list(range(depth)):
            spans = ", ".join(f"{stage.first}..{stage.last}" for stage in self.stages)
            raise UsageError(f"the stages cover layers {spans}, the network has 0..{depth - 1}")
        if world != self.processes:
            raise UsageError(f"the placement has {self.processes} processes, and {world} were started")
        if most := max((stage.workers for stage in self.stages if stage.workers > rows), default=None):
            raise UsageError(f"a batch of {rows} examples cannot be shared by {most} units; make it larger")


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
