"""The keeper: a small process between the engine and its fork server.

    engine ── keeper ──┤ namespace: server (its init) ── leader ── workers ── their children

Where the system allows it the server is the init of a PID namespace, so its death is
the death of everything below it, whatever that has forked. Where not, each level asks
to be told of its parent's death and adopts the orphans below it. The keeper notices
when the engine is gone, ends the server, and removes the temporary folder.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys

from cotune.run import processes
from cotune.run.processes import adopt_orphans, die_with_parent, end_descendants, libc

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_SLAVE = 2, 4, 8, 16384, 1 << 19
_LOOK_SECONDS = 0.25


def main() -> None:
    """Start the server below this process, and end it with the engine."""
    engine, commands, events, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    isolated = sys.argv[5] == "isolate" and can_isolate()
    if isolated:
        _enter_namespace()
    else:
        adopt_orphans()
    server = os.fork()
    if server == 0:
        die_with_parent(signal.SIGKILL if isolated else signal.SIGTERM)
        if isolated:
            _mount_proc()
        _serve(commands, events)
    os.close(commands)
    os.close(events)
    _watch(engine, server)
    end_descendants()
    shutil.rmtree(folder, ignore_errors=True)


def _serve(commands: int, events: int) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    from cotune.run.local.forkserver import serve  # only now: this may import numpy, which starts threads

    try:
        serve(commands, events)
    finally:
        sys.stderr.flush()
        os._exit(1)


def _watch(engine: int, server: int) -> None:
    """Return when the server has ended; end it when the engine is gone."""
    while os.waitpid(server, os.WNOHANG)[0] == 0:
        signal.sigtimedwait({signal.SIGCHLD}, _LOOK_SECONDS)
        if os.getppid() != engine:
            os.kill(server, signal.SIGKILL)


def can_isolate() -> bool:
    """Say whether a PID namespace with its own /proc can be had, by trying it in a child."""
    trial = os.fork()
    if trial == 0:
        try:
            _enter_namespace()
            inner = os.fork()
            if inner == 0:
                _mount_proc()
                os._exit(0)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]))
        except OSError:
            os._exit(1)
        finally:
            os._exit(1)
    return os.waitpid(trial, 0)[1] == 0


def _enter_namespace() -> None:
    """Let the next child be the init of a new PID namespace."""
    processes.enter_namespaces(processes.PROCESSES | processes.MOUNTS)


def _mount_proc() -> None:
    """Show the namespace's own processes in /proc, so that numbers there are the ones to signal."""
    processes.check(libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_SLAVE), None), "mount")
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    processes.check(libc.mount(b"proc", b"/proc", b"proc", flags, None), "mount")


if __name__ == "__main__":
    main()
