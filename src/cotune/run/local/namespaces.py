"""Linux namespaces: what a process and its children see of processes, mounts and network.

Root may leave a namespace by itself; anybody else first needs a user namespace, in which
it keeps its own numbers but may do what root may. Only the standard library: this is
imported before numpy, whose threads would forbid a user namespace.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from cotune.run.processes import libc

MOUNTS = 0x00020000
USER = 0x10000000
PROCESSES = 0x20000000
NETWORK = 0x40000000


def enter(kinds: int) -> None:
    """Let this process enter new namespaces of some kinds; without root by a user namespace."""
    if libc.unshare(kinds) == 0:
        return
    user, group = os.getuid(), os.getgid()
    check(libc.unshare(USER | kinds), "unshare")
    for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path(f"/proc/self/{name}").write_text(line)


def network() -> int:
    """Return a file descriptor that stands for the network namespace of this process."""
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter_network(namespace: int) -> None:
    """Enter the network namespace that a file descriptor stands for."""
    check(libc.setns(namespace, NETWORK), "setns")


def check(result: int, call: str) -> None:
    """Raise what the system says when a call has failed."""
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{call}: {os.strerror(ctypes.get_errno())}")
