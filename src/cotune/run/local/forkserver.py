"""The fork server: torch is imported once, when a program may need it, and every worker is forked from here.

A fork of a process that has imported torch (and torch._dynamo, which the first DDP
would import) trains after 0.05 s instead of 5 s. The server itself only imports: it
runs no operator, touches no GPU, starts no thread, and forks from its main thread, for
a child of anything else may hang. One leader is forked for each launch.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
from collections.abc import Iterator, Mapping
from typing import Any

from cotune.run import processes
from cotune.run.local.leader import lead
from cotune.run.local.messages import Group, tell
from cotune.run.preload import preload


def serve(commands: int, events: int) -> None:
    """Carry out the commands that arrive, until the engine closes its end."""
    processes.adopt_orphans()
    _Server(commands, events).run()
    processes.end_descendants()


class _Server:
    """What the server knows: the leader of each launch, and the daemons it was asked for."""

    def __init__(self, commands: int, events: int) -> None:
        self.commands = commands
        self.events = events
        self.leaders: dict[int, str] = {}
        self.daemons: set[int] = set()

    def run(self) -> None:
        signals = processes.signals_as_bytes(signal.SIGCHLD, signal.SIGTERM)
        tell(self.events, "ready")
        pending = b""
        while True:
            readable, _, _ = select.select([self.commands, signals], [], [])
            if signals in readable and signal.SIGTERM in os.read(signals, processes.CHUNK):
                return
            self._reap()
            if self.commands in readable:
                chunk = os.read(self.commands, processes.CHUNK)
                if not chunk:
                    return
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    self._obey(json.loads(line))

    def _obey(self, command: Mapping[str, Any]) -> None:
        match command["do"]:
            case "start":
                group = Group.from_json(command["group"])
                preload(group)
                self.leaders[self._fork_leader(group)] = group.launch
            case "signal":
                for pid in self._leaders_of(command["launch"]):
                    os.kill(pid, command["signal"])
            case "daemon":
                self.daemons.add(_exec(command["argv"], command["env"]))
            case other:
                raise ValueError(f"no command {other!r}")

    def _leaders_of(self, launch: str) -> Iterator[int]:
        return (pid for pid, name in self.leaders.items() if name == launch)

    def _fork_leader(self, group: Group) -> int:
        pid = os.fork()
        if pid == 0:
            processes.signals_as_usual()
            processes.close_all_but({self.events})
            lead(group, self.events)
        return pid

    def _reap(self) -> None:
        """Bury the dead; where a leader died without a word, end its orphans and speak for it."""
        for pid, ended in processes.reap().items():
            self.daemons.discard(pid)
            launch = self.leaders.pop(pid, None)
            if launch is not None and ended.status != 0:
                self._end_strays()
                tell(self.events, "lost", launch=launch, status=ended.status)

    def _end_strays(self) -> None:
        spared = self.daemons | self.leaders.keys()
        spared |= {below for pid in spared for below in processes.descendants(pid)}
        for pid in processes.descendants(os.getpid()):
            if pid not in spared:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _exec(argv: list[str], env: dict[str, str]) -> int:
    pid = os.fork()
    if pid == 0:
        processes.signals_as_usual()
        try:
            os.execve(argv[0], argv, env)
        finally:
            os._exit(127)
    return pid
