"""One launch of the local engine while it runs: what was taken for it, and what it said."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cotune.run.local.messages import Program, Record
from cotune.run.local.nodes import EmulatedNodes
from cotune.run.monitor import LaunchMonitor


@dataclass(kw_only=True)
class LocalLaunch(LaunchMonitor):
    """A launch's share of the machine, and its state."""

    program: Program
    temporary: Path
    cores: list[tuple[int, ...]]
    gpus: list[int]
    ports: list[int]
    memory_kills: int
    nodes: EmulatedNodes | None = None
    on_nodes: list[int]  # of each worker and server, where nodes are emulated
    modelled: str | None = None
    begun: float = 0.0
    printed: float = 0.0  # when the last line that told something was

    def _printed(self, now: float) -> float:
        """Return when a line was printed: its file says so, and by the same clock; what is read may have waited.

        The file's time is a few milliseconds coarse, and may lie before the job's own code began.
        """
        written = now - max(0.0, time.time() - self.log.written)
        self.printed = max(self.printed, written if written > self.begun else now)
        return self.printed

    def _warnings(self) -> Iterator[str]:
        yield from super()._warnings()
        device = self.launch.config.device
        named = self.nodes is not None and device in self.nodes.devices
        if device != "cpu" and not self.gpus and not named:
            yield f"there is no GPU here, so device {device!r} was the CPU"
        if self.nodes is not None:
            yield from self._emulation(self.nodes)

    def _emulation(self, nodes: EmulatedNodes) -> Iterator[str]:
        """Yield where emulated nodes are less than they should be."""
        if self.modelled:
            yield self.modelled
        if crowded := nodes.warning(self.on_nodes):
            yield crowded
        if self.program.kind == "exec":
            yield "a program of its own is not slowed to its share of a core"
        record = Record.read(self.folder, 0)
        if record is not None and record.warning:
            yield record.warning
