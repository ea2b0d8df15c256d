"""Who writes a sample, so that the samples of a dead writer can be told from those still growing.

    writer = host / boot / process namespace / pid / start tick of the process

A pid alone is reused, and means nothing in another container or after a reboot. Only a
death that can be seen from here counts: another machine's writers are left alone.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

_PROC = Path("/proc")


def me() -> str | None:
    """Return the name of this process, or None where the system has no /proc to tell it by."""
    tick = _start_tick(os.getpid())
    return None if tick is None else "/".join((*_here(), str(os.getpid()), tick))


def gone(writer: str) -> bool:
    """Return whether a writer is known to be dead."""
    if _start_tick(os.getpid()) is None:
        return False
    host, boot, namespace, pid, tick = writer.split("/")
    here = _here()
    if host == here[0] and boot != here[1]:
        return True
    return (boot, namespace) == here[1:] and _start_tick(int(pid)) != tick


def _here() -> tuple[str, str, str]:
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    namespace = (_PROC / "self/ns/pid").readlink().name.strip("pid:[]")
    return socket.gethostname(), boot, namespace


def _start_tick(pid: int) -> str | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The second field is the program's name, which may itself hold spaces and brackets.
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]
