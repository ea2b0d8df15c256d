"""A network of emulated nodes: one network namespace each, cables to one bridge, limited at both ends.

    node 0 ─tbf═tbf─┐
    node 1 ─tbf═tbf─┤ bridge: the namespace of the launch's leader, where the store listens
    node 2 ─tbf═tbf─┘

No root is needed, and nothing is left to clean up: a namespace goes with its last process.
Rate is emulated; latency is that of a local cable, and nothing outside can be reached.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

from cotune.run.local import namespaces
from cotune.run.local.netlink import Netlink

LINK = "eth0"
BRIDGE_ADDRESS = "10.0.255.254"
_BRIDGE = "bridge"
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

    Making it moves this process into the network's middle. OSError says that it cannot be had.
    """

    def __init__(self, rates: Sequence[float | None]) -> None:
        namespaces.enter(namespaces.NETWORK)
        self._middle = namespaces.network()
        self._nodes: list[int] = []
        with Netlink() as kernel:
            kernel.up("lo")
            kernel.add_bridge(_BRIDGE)
            kernel.address(_BRIDGE, BRIDGE_ADDRESS, _PREFIX)
            kernel.up(_BRIDGE)
            for node, rate in enumerate(rates):
                self._add(kernel, node, rate)

    def enter(self, node: int) -> None:
        """Move this process to a node."""
        namespaces.enter_network(self._nodes[node])

    def _add(self, kernel: Netlink, node: int, rate: float | None) -> None:
        namespaces.enter(namespaces.NETWORK)
        self._nodes.append(namespaces.network())
        namespaces.enter_network(self._middle)
        port = f"node{node}"
        kernel.add_cable(port, LINK, self._nodes[node])
        kernel.plug_in(port, _BRIDGE)
        _limit(kernel, port, rate)
        kernel.up(port)
        self.enter(node)
        with Netlink() as inside:
            inside.up("lo")
            inside.address(LINK, address(node), _PREFIX)
            _limit(inside, LINK, rate)
            inside.up(LINK)
        namespaces.enter_network(self._middle)


def _limit(kernel: Netlink, link: str, rate: float | None) -> None:
    if rate is not None:
        burst = max(_LEAST_BURST, int(rate / 8 * _BURST_SECONDS))
        kernel.limit(link, rate / 8, burst, burst + max(_LEAST_WAITING, int(rate / 8 * _WAITING_SECONDS)))
