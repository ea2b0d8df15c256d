"""The stages of a pipeline as its processes are told them: by the variable COTUNE_PLACEMENT, as JSON.

Ranks count through the stages: the units of stage 0 first. Processes that hold nothing but rows of
embedding tables, where those are asked for, count on after them.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from cotune.errors import UsageError
from cotune.types import Stage

PLACEMENT = "COTUNE_PLACEMENT"


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
