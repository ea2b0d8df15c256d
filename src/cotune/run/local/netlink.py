"""Telling the kernel about links: bridges, virtual cables, addresses and rates, over a netlink socket.

    message    header (length, kind, flags, number, port), a fixed part, attributes
    attribute  length, kind, value, padded to four bytes; a value may hold attributes again

This is what the programs `ip` and `tc` do. Speaking it directly needs neither of them, and
works in a user namespace, where a program started by a user other than root has no rights.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")  # family, device type, index, flags, changed flags
_ADDRESS = struct.Struct("=BBBBI")  # family, prefix, flags, scope, index
_QUEUE = struct.Struct("=BxxxiIII")  # family, index, handle, parent, info
_ATTRIBUTE = struct.Struct("=HH")
_RATE = struct.Struct("=BBHhHI")  # cell, link layer, overhead, cell alignment, least packet, bytes per second
_BUCKET = struct.Struct("=III")  # most bytes waiting, burst in ticks (given in bytes below), mtu

_NEW_LINK, _NEW_ADDRESS, _NEW_QUEUE = 16, 20, 36
_REQUEST, _ACKNOWLEDGE, _EXCLUSIVE, _CREATE = 1, 4, 0x200, 0x400
_ERROR = 2
_NAME, _MASTER, _INFO, _NAMESPACE = 3, 10, 18, 28
_INFO_KIND, _INFO_DATA, _PEER = 1, 2, 1
_LOCAL, _BROADCAST = 2, 4
_KIND, _OPTIONS = 1, 2
_TBF_PARAMETERS, _TBF_RATE64, _TBF_BURST = 1, 4, 6
_UP = 1
_ROOT = 0xFFFFFFFF
_ETHERNET = 1


class Netlink:
    """A line to the kernel, in the network namespace in which it was opened."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._number = 0

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def add_bridge(self, name: str) -> None:
        """Make a bridge: what comes in at one of its ports goes out at another."""
        info = _attribute(_INFO, _attribute(_INFO_KIND, b"bridge"))
        self._ask(_NEW_LINK, _CREATE | _EXCLUSIVE, _LINK.pack(0, 0, 0, 0, 0) + _attribute(_NAME, _text(name)) + info)

    def add_cable(self, name: str, peer: str, namespace: int) -> None:
        """Make a cable with one end here and the other, its peer, in another namespace."""
        other = _LINK.pack(0, 0, 0, 0, 0) + _attribute(_NAME, _text(peer))
        other += _attribute(_NAMESPACE, struct.pack("=I", namespace))
        info = _attribute(_INFO_KIND, b"veth") + _attribute(_INFO_DATA, _attribute(_PEER, other))
        body = _LINK.pack(0, 0, 0, 0, 0) + _attribute(_NAME, _text(name)) + _attribute(_INFO, info)
        self._ask(_NEW_LINK, _CREATE | _EXCLUSIVE, body)

    def plug_in(self, name: str, bridge: str) -> None:
        """Make a link a port of a bridge."""
        master = _attribute(_MASTER, struct.pack("=I", socket.if_nametoindex(bridge)))
        self._ask(_NEW_LINK, 0, _LINK.pack(0, 0, socket.if_nametoindex(name), 0, 0) + master)

    def up(self, name: str) -> None:
        """Switch a link on."""
        self._ask(_NEW_LINK, 0, _LINK.pack(0, 0, socket.if_nametoindex(name), _UP, _UP))

    def address(self, name: str, address: str, prefix: int) -> None:
        """Give a link an address."""
        packed = socket.inet_aton(address)
        spread = socket.inet_aton(_last_of(address, prefix))
        body = _ADDRESS.pack(socket.AF_INET, prefix, 0, 0, socket.if_nametoindex(name))
        body += _attribute(_LOCAL, packed) + _attribute(_BROADCAST, spread)
        self._ask(_NEW_ADDRESS, _CREATE | _EXCLUSIVE, body)

    def limit(self, name: str, rate: float, burst: int, waiting: int) -> None:
        """Let a link send at most `rate` bytes a second, `burst` bytes at once, and drop beyond `waiting` bytes."""
        whole = int(rate)
        rated = _RATE.pack(0, _ETHERNET, 0, 0, 0, min(whole, 0xFFFFFFFF))
        options = _attribute(_TBF_PARAMETERS, rated + bytes(_RATE.size) + _BUCKET.pack(waiting, 0, 0))
        options += _attribute(_TBF_BURST, struct.pack("=I", burst))
        options += _attribute(_TBF_RATE64, struct.pack("=Q", whole))
        body = _QUEUE.pack(0, socket.if_nametoindex(name), 0, _ROOT, 0)
        body += _attribute(_KIND, _text("tbf")) + _attribute(_OPTIONS, options)
        self._ask(_NEW_QUEUE, _CREATE | _EXCLUSIVE, body)

    def _ask(self, kind: int, flags: int, body: bytes) -> None:
        self._number += 1
        header = _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | _ACKNOWLEDGE | flags, self._number, 0)
        self._socket.send(header + body)
        answer = self._socket.recv(1 << 16)
        _, kind, _, _, _ = _HEADER.unpack_from(answer)
        (code,) = struct.unpack_from("=i", answer, _HEADER.size)
        if kind != _ERROR:
            raise OSError(errno.EPROTO, f"netlink answered with a message of kind {kind}")
        if code:
            raise OSError(-code, f"netlink: {os.strerror(-code)}")


def _attribute(kind: int, value: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def _text(word: str) -> bytes:
    return word.encode() + b"\0"


def _last_of(address: str, prefix: int) -> str:
    """Return the broadcast address of a network."""
    (number,) = struct.unpack("!I", socket.inet_aton(address))
    return socket.inet_ntoa(struct.pack("!I", number | (0xFFFFFFFF >> prefix)))
