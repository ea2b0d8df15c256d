"""One launch of the local engine while it runs: what was taken for it, and what it said."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cotune.run import Launch
from cotune.run._hearing import Hearing
from cotune.run._logged import Files, ToolLog
from cotune.run._messages import Program, Record
from cotune.run._nodes import Nodes
from cotune.run._tail import Tail


@dataclass
class Running(Hearing):
    """A launch's share of the machine, and its state."""

    launch: Launch
    program: Program
    folder: Path
    temporary: Path
    report: Tail
    log: Tail | Files
    tool: ToolLog | None
    pattern: re.Pattern[str] | None
    cores: list[tuple[int, ...]]
    gpus: list[int]
    ports: list[int]
    memory_kills: int
    started: bool = False
    stopped: bool = False
    target_met: bool = False
    last_epoch: float = math.inf
    went_on: bool = False
    terminating: bool = False
    spoiled: str | None = None
    terminate_at: float | None = None
    unread: int = 0
    nodes: Nodes | None = None
    modelled: str | None = None

    def _warnings(self) -> Iterator[str]:
        yield from super()._warnings()
        device = self.launch.config.device
        if device != "cpu" and not self.gpus:
            yield f"there is no GPU here, so device {device!r} was the CPU"
        if self.nodes is not None:
            yield from self._emulation(self.nodes)

    def _emulation(self, nodes: Nodes) -> Iterator[str]:
        """Yield where emulated nodes are less than they should be."""
        if self.modelled:
            yield self.modelled
        if crowded := nodes.warning(self.launch.config.workers + self.launch.config.servers):
            yield crowded
        if self.program.kind == "exec":
            yield "a program of its own is not slowed to its share of a core"
        record = Record.read(self.folder, 0)
        if record is not None and record.warning:
            yield record.warning
