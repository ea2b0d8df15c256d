"""What Linux offers so that no process is left behind, and namespaces for processes, mounts and network.

A process may ask for a signal when its parent dies, and may adopt the orphans below it; so whoever sits at the top of
a tree can always find, end and reap all of it. Root may leave a namespace by itself; anybody else first needs a user
namespace, in which it keeps its own numbers but may do what root may. Only the standard library: this is imported
before numpy, whose threads would forbid a user namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PF_EXITING = 0x4
CHUNK = 1 << 16  # bytes that are read from a pipe at once
# Kinds of namespaces, as `unshare` numbers them.
MOUNTS = 0x00020000
USER = 0x10000000
PROCESSES = 0x20000000
NETWORK = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(number: signal.Signals) -> None:
    """Ask for a signal when the parent's main thread ends."""
    libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every process below that loses its own."""
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Return the processes below `root`, nearest first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text(errors="replace")
                parent = int(stat.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(root, ()))
    for pid in found:  # grows while it is read
        found += children.get(pid, ())
    return found


def is_exiting(pid: int) -> bool:
    """Say whether a process is on its way out; this is set before its connections close."""
    flags = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[6])
    return bool(flags & _PF_EXITING)


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended, and the most memory that it, or any child it waited for, took."""

    status: int
    peak_bytes: int

    @property
    def code(self) -> int:
        """Return its exit code, or minus the signal that ended it."""
        return os.waitstatus_to_exitcode(self.status)


def wait_for(pid: int, options: int = 0) -> tuple[int, Exit]:
    """Return which child has ended (-1 waits for any), and how; 0 where none has and `options` forbid to wait."""
    ended, status, usage = os.wait4(pid, options)
    return ended, Exit(status, usage.ru_maxrss * 1024)


def end_descendants() -> dict[int, Exit]:
    """Kill everything below this process; return how each child ended, when all are gone."""
    ended: dict[int, Exit] = {}
    while True:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            pid, how = wait_for(-1)
        except ChildProcessError:
            return ended
        ended[pid] = how


def reap() -> dict[int, Exit]:
    """Return how each child ended that has, without waiting."""
    ended: dict[int, Exit] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, how = wait_for(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = how
    return ended


def signals_as_bytes(*numbers: signal.Signals) -> int:
    """Return a file descriptor on which each of these signals arrives as one byte."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return read


def signals_as_usual() -> None:
    """Undo `signals_as_bytes` in a forked child: all signals do what they do by default."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def close_all_but(kept: Collection[int]) -> None:
    """Close what a fork has inherited, except the standard streams and `kept`."""
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208  # names of numbers, not paths
        if int(entry) > 2 and int(entry) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(entry))


def enter_namespaces(kinds: int) -> None:
    """Let this process enter new namespaces of some kinds; without root by a user namespace."""
    if libc.unshare(kinds) == 0:
        return
    user, group = os.getuid(), os.getgid()
    check(libc.unshare(USER | kinds), "unshare")
    for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path(f"/proc/self/{name}").write_text(line)


def network_namespace() -> int:
    """Return a file descriptor that stands for the network namespace of this process."""
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter_network(namespace: int) -> None:
    """Enter the network namespace that a file descriptor stands for."""
    check(libc.setns(namespace, NETWORK), "setns")


def check(result: int, call: str) -> None:
    """Raise what the system says when a call has failed."""
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{call}: {os.strerror(ctypes.get_errno())}")
