"""Emulated nodes as the settings describe them: a share of a core, a link and a disk for each.

engine: {local: {nodes: 8, cores: 0.2, link: 100mbit}}
engine: {local: {nodes: 4, cores: [0.4, 0.4, 0.2, 0.1], link: [1gbit, 1gbit, 100mbit, 100mbit]}}
engine: {local: {nodes: 2, disk: 40mbit}}          every batch of a torch DataLoader takes its bits over that rate
engine: {local: {nodes: 8, cores: 0.2, link: 1gbit, per_machine: 4, trunk: 100mbit}}
engine: {local: {nodes: 4, cores: [0.4, 0.4, 0.1, 0.1], devices: [fast, fast, slow, slow]}}

A worker of a device is on a node of that name, where nodes have names; without names on the first ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cotune.errors import UsageError
from cotune.types import Config
from cotune.units import bits_per_second

Rate = str | float
MOST_LOAD = 0.8  # of the machine's cores; beyond it nodes get in each other's way


@dataclass(frozen=True, slots=True)
class EmulatedNodes:
    """The share of a core of each node, its link and its disk in bits per second (None: as fast as the machine is).

    Nodes stand in machines of `per_machine` each, joined by trunks, where that is said.
    """

    shares: tuple[float, ...]
    rates: tuple[float | None, ...]
    disks: tuple[float | None, ...]
    per_machine: int | None = None
    trunk: float | None = None
    devices: tuple[str, ...] = ()  # of each node; any where none are named

    @classmethod
    def of(
        cls,
        count: int,
        cores: float | Sequence[float] | None,
        link: Rate | Sequence[Rate] | None,
        disk: Rate | Sequence[Rate] | None = None,
        *,
        per_machine: int | None = None,
        trunk: Rate | None = None,
        devices: Sequence[str] | None = None,
    ) -> EmulatedNodes:
        """Return so many nodes; one value of `cores`, `link` or `disk` is for all, a list has one for each."""
        if devices is not None and (isinstance(devices, str) or len(devices) != count):
            raise UsageError(f"devices has a name for each of {count} nodes, in a list")
        if (per_machine or 1) < 1 or (trunk is not None and per_machine is None):
            raise UsageError("machines of emulated nodes: say per_machine, at least 1, and their trunk")
        if count < 1:
            raise UsageError(f"the local engine can have nodes at least 1, not {count}")
        fair = min(1.0, MOST_LOAD * len(os.sched_getaffinity(0)) / count)
        shares = tuple(float(share) for share in _each("cores", fair if cores is None else cores, count))
        if not all(0 < share <= 1 for share in shares):
            raise UsageError(f"an emulated node has a share of one core, above 0 and up to 1, not cores {cores}")
        links, disks = (
            tuple(None if each is None else bits_per_second(each) for each in _each(name, given, count))
            for name, given in (("link", link), ("disk", disk))
        )
        rate = None if trunk is None else bits_per_second(trunk)
        return cls(shares, links, disks, per_machine, rate, tuple(map(str, devices or ())))

    def machine(self, node: int) -> int | None:
        """Return the machine that a node stands in, where there are machines."""
        return node // self.per_machine if self.per_machine else None

    def of_units(self, config: Config, machines: Sequence[int] = ()) -> list[int]:
        """Return the node of each worker and server: the first of its device, or of the machines of that device named.

        Servers are on nodes of the last stage's device.
        """
        wanted = [stage.device for stage in config.stages for _ in range(stage.workers)]
        wanted += [config.stages[-1].device] * config.servers
        named = machines if self.per_machine and len(machines) == len(wanted) else [None] * len(wanted)
        taken: list[int] = []
        for device, machine in zip(wanted, named, strict=True):
            own = [node for node in range(len(self.shares)) if not self.devices or self.devices[node] == device]
            if machine is not None and self.per_machine:
                own = own[machine * self.per_machine : (machine + 1) * self.per_machine]
            free = next((node for node in own if node not in taken), None)
            if free is None:
                raise UsageError(self._too_few(config, device, machine, len(own)))
            taken.append(free)
        return taken

    def _too_few(self, config: Config, device: str, machine: int | None, there: int) -> str:
        needs = f"{config} needs {config.units} nodes"
        if machine is not None:
            return f"{needs}, more of them on machine {machine} than the {there} that it has"
        kind = f" called {device}" if self.devices else ""
        return f"{needs}, the local engine has {there}{kind}"

    def warning(self, nodes: Sequence[int]) -> str | None:
        """Return what to say of some nodes when they want more than the machine can give."""
        wanted, there = sum(self.shares[node] for node in nodes), len(os.sched_getaffinity(0))
        if wanted <= there * (MOST_LOAD + 1e-9):
            return None
        return f"{len(nodes)} nodes want {wanted:.3g} of {there} cores, so their times may be too long"


def _each(name: str, given: object, count: int) -> Sequence[Any]:
    if not isinstance(given, list | tuple):
        return [given] * count
    if len(given) != count:
        raise UsageError(f"{name} has {len(given)} values for {count} nodes; give one for each, or one for all")
    return given
