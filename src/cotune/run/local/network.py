"""A network of emulated nodes: one network namespace each, cables to one bridge, limited at both ends.

    node 0 ─tbf═tbf─┐
    node 1 ─tbf═tbf─┤ bridge: the namespace of the launch's leader, where the store listens
    node 2 ─tbf═tbf─┘

Nodes may stand in machines, each with a bridge of its own and one cable, the trunk, to the middle:

    node 0, 1 ═ machine 0 ─tbf═tbf─┐
    node 2, 3 ═ machine 1 ─tbf═tbf─┘ bridge

No root is needed, and nothing is left to clean up: a namespace goes with its last process.
Rate is emulated; latency is that of a local cable, and nothing outside can be reached.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

from cotune.run import processes
from cotune.run.local.netlink import Netlink

LINK = "eth0"
BRIDGE_ADDRESS = "10.0.255.254"
_BRIDGE = "bridge"
_MACHINE = "machine"
_PREFIX = 16
_FIRST = struct.unpack("!I", socket.inet_aton("10.0.0.1"))[0]
# A longer burst lets short messages pass for free, a shorter one is lost between two timer ticks.
_BURST_SECONDS = 0.001
_LEAST_BURST = 2 * 1514  # two whole packets
_WAITING_SECONDS = 0.05  # what may queue up at a link before it drops packets, as a switch would
_LEAST_WAITING = 1 << 17  # bytes


def address(node: int) -> str:
    """Return the address of a node."""
    return socket.inet_ntoa(struct.pack("!I", _FIRST + node))


class EmulatedNetwork:
    """Some nodes, each with its own link; a rate is in bits per second, None for no limit.

    `machines` is which machine each node stands in, of which each has a `trunk` to the others.
    Making it moves this process into the network's middle. OSError says that it cannot be had.
    """

    def __init__(self, rates: Sequence[float | None], machines: Sequence[int] = (), trunk: float | None = None) -> None:
        processes.enter_namespaces(processes.NETWORK)
        self._middle = processes.network_namespace()
        self._nodes: list[int] = []
        with Netlink() as kernel:
            kernel.up("lo")
            kernel.add_bridge(_BRIDGE)
            kernel.address(_BRIDGE, BRIDGE_ADDRESS, _PREFIX)
            kernel.up(_BRIDGE)
            for machine in sorted(set(machines)):
                self._add_machine(kernel, machine, trunk)
            for node, rate in enumerate(rates):
                self._add(kernel, node, rate, f"{_MACHINE}{machines[node]}" if machines else _BRIDGE)

    def enter(self, node: int) -> None:
        """Move this process to a node."""
        processes.enter_network(self._nodes[node])

    def _add_machine(self, kernel: Netlink, machine: int, trunk: float | None) -> None:
        bridge, ends = f"{_MACHINE}{machine}", (f"trunk{machine}", f"out{machine}")
        kernel.add_bridge(bridge)
        kernel.up(bridge)
        kernel.add_cable(*ends, self._middle)
        for end, into in zip(ends, (_BRIDGE, bridge), strict=True):
            kernel.plug_in(end, into)
            _limit(kernel, end, trunk)
            kernel.up(end)

    def _add(self, kernel: Netlink, node: int, rate: float | None, bridge: str) -> None:
        processes.enter_namespaces(processes.NETWORK)
        self._nodes.append(processes.network_namespace())
        processes.enter_network(self._middle)
        port = f"node{node}"
        kernel.add_cable(port, LINK, self._nodes[node])
        kernel.plug_in(port, bridge)
        _limit(kernel, port, rate)
        kernel.up(port)
        self.enter(node)
        with Netlink() as inside:
            inside.up("lo")
            inside.address(LINK, address(node), _PREFIX)
            _limit(inside, LINK, rate)
            inside.up(LINK)
        processes.enter_network(self._middle)


def _limit(kernel: Netlink, link: str, rate: float | None) -> None:
    if rate is not None:
        burst = max(_LEAST_BURST, int(rate / 8 * _BURST_SECONDS))
        kernel.limit(link, rate / 8, burst, burst + max(_LEAST_WAITING, int(rate / 8 * _WAITING_SECONDS)))
