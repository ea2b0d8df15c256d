"""The leader of one launch: forks its workers, watches them, leaves nothing behind.

A worker that is done waits for its peers before it exits, so that nobody loses a
connection that is still needed; one that fails ends all. What counts is the record a
worker has written, not its exit code: gloo may abort after a good run.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

from cotune.run import processes
from cotune.run.lease import LOOK_SECONDS, Watch
from cotune.run.local.messages import EXIT_SECONDS, Group, Record, Slice, tell
from cotune.run.local.network import BRIDGE_ADDRESS, EmulatedNetwork
from cotune.run.local.worker import PORT, work
from cotune.run.memory import as_counted, leave_behind, resident_bytes


def lead(group: Group, events: int) -> NoReturn:
    """Run a group of workers to its end, tell the engine, and exit."""
    processes.adopt_orphans()
    processes.die_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a worker that is gone tells so by its end
    try:
        _Leader(group, events).run()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        processes.end_descendants()
        os._exit(1)
    os._exit(0)


class _Leader:
    def __init__(self, group: Group, events: int) -> None:
        self.group = group
        self.events = events
        self.alive: dict[int, int] = {}
        self.begun: dict[int, float] = {}
        self.finished: set[int] = set()
        self.failed: int | None = None
        self.exits: dict[int, processes.Exit] = {}
        self.deadline: float | None = None
        self.terminating = False
        self.deaf = False  # once every worker has become another program
        self.signals = processes.signals_as_bytes(signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1)
        self.told, self.tell = os.pipe()
        self.held, self.release = os.pipe()
        self.port, self.give_port = os.pipe()

        self.servers = {worker.rank for worker in self.group.workers if worker.server}
        self.workers = len(self.group.workers) - len(self.servers)
        self.dismissed: set[int] = set()
        self.watch = Watch(group.env, "leader")
        self.network: EmulatedNetwork | None = None
        self.modelled: str | None = None

    def run(self) -> None:
        if self.watch.is_fenced_off():
            raise RuntimeError("a later start has this run's folder")
        self._lay_network()
        self.alive = {self._fork(worker): worker.rank for worker in self.group.workers}
        for inherited in (self.tell, self.held, self.port):
            os.close(inherited)
        # Only now: the store has a thread, and what has threads must not fork.
        wanted = self.group.program.kind != "exec" and "torch" in sys.modules
        store = _open_store(BRIDGE_ADDRESS if self.network else "127.0.0.1") if wanted else None
        ports = PORT.pack(store.port if store else 0) * len(self.group.workers)
        with contextlib.suppress(BrokenPipeError):  # all have ended, or become another program
            os.write(self.give_port, ports)
        while self.alive and self.failed is None and not self._overdue():
            self._look()
        ended = time.monotonic()
        killed = set(self.alive.values())
        for pid, how in processes.end_descendants().items():
            if pid in self.alive:
                self._leave_memory(self.alive[pid], how)
        for rank in range(len(self.group.workers)):
            self._record(rank, killed, ended)
        asked = -signal.SIGTERM if self.terminating else 0  # an end that was asked for is none to wonder at
        aborted = [
            [rank, -how.code]
            for rank, how in self.exits.items()
            if how.code < 0 and how.code != asked and rank in self.finished
        ]
        apart = store is not None and len(self.group.workers) > 1 and store.num_keys() == 0
        tell(self.events, "ended", launch=self.group.launch, at=ended, failed=self.failed, aborted=aborted, apart=apart)

    def _lay_network(self) -> None:
        """Put every worker on a node of its own, if it is to have one and the system lets us."""
        nodes = [worker.node for worker in self.group.workers if worker.node is not None]
        if not nodes:
            return
        try:
            machines = [node.machine for node in nodes if node.machine is not None]
            self.network = EmulatedNetwork([node.rate for node in nodes], machines, nodes[0].trunk)
        except OSError as error:
            self.modelled = f"links are modelled, as no network of namespaces can be had ({error.strerror})"

    def _fork(self, worker: Slice) -> int:
        pid = os.fork()
        if pid == 0:
            processes.signals_as_usual()
            if self.network:
                self.network.enter(worker.rank)
            processes.close_all_but({self.tell, self.held, self.port})
            processes.die_with_parent(signal.SIGKILL)
            work(
                self.group,
                worker,
                self.tell,
                self.held,
                self.port,
                sharing=len(self.group.workers),
                inherited=resident_bytes(),
                networked=self.network is not None,
            )
        return pid

    def _overdue(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _look(self) -> None:
        """Wait for the next thing to happen, and note it."""
        if self.watch.is_fenced_off():
            processes.end_descendants()
            os._exit(1)
        left = LOOK_SECONDS if self.deadline is None else max(0.0, self.deadline - time.monotonic())
        sources = [self.signals] if self.deaf else [self.signals, self.told]
        readable, _, _ = select.select(sources, [], [], min(left, LOOK_SECONDS))
        if self.signals in readable:
            self._hear(os.read(self.signals, processes.CHUNK))
        silent = self._bury(processes.reap())
        failed = self._listen() if self.told in readable else []
        if failed:
            # A worker that dies in silence explains the broken connections of its peers, not they its death.
            silent += self._bury(self._dying())
        if not self.terminating:
            self.failed = next((rank for rank in [*silent, *failed] if rank not in self.dismissed), None)
        if len((self.finished | self.exits.keys()) - self.servers) == self.workers and self.release >= 0:
            self._dismiss_servers()
            os.close(self.release)
            self.release = -1
            self.deadline = time.monotonic() + EXIT_SECONDS

    def _dismiss_servers(self) -> None:
        """End the servers, which wait for workers that have no more to ask."""
        idle = {pid: rank for pid, rank in self.alive.items() if rank in self.servers}
        # One that sees another go may still tell of a broken connection: that is no failure.
        self.dismissed = set(idle.values())
        for pid in idle:
            os.kill(pid, signal.SIGKILL)
        for pid, rank in idle.items():
            processes.wait_for(pid)
            del self.alive[pid]
            self.finished.add(rank)
            begun = self.begun.get(rank, time.monotonic())
            Record("done", 0, begun, time.monotonic()).write(self.group.folder, rank)

    def _hear(self, numbers: bytes) -> None:
        if signal.SIGUSR1 in numbers:
            self.deadline = time.monotonic()
        elif signal.SIGTERM in numbers:
            self.terminating = True
            self.deadline = time.monotonic() + self.group.term_seconds
            for pid, rank in self.alive.items():
                if rank not in self.servers:  # workers may need them to come to an end
                    os.kill(pid, signal.SIGTERM)

    def _bury(self, ended: dict[int, processes.Exit]) -> list[int]:
        """Note who has ended; return the ranks that ended badly and without a record."""
        silent: list[int] = []
        for pid, how in ended.items():
            if pid not in self.alive:
                continue
            rank = self.alive.pop(pid)
            self.exits[rank] = how
            self._leave_memory(rank, how)
            if Record.read(self.group.folder, rank) is not None:
                continue
            self._record(rank, set(), time.monotonic())
            if how.code == 0:
                self.finished.add(rank)
            else:
                silent.append(rank)
        return silent

    def _dying(self) -> dict[int, processes.Exit]:
        """Wait for the workers that are about to end without a record, and return how they did."""
        without = [pid for pid, rank in self.alive.items() if Record.read(self.group.folder, rank) is None]
        return dict(processes.wait_for(pid) for pid in without if processes.is_exiting(pid))

    def _listen(self) -> list[int]:
        """Read what workers say; return the ranks that say they failed, in that order."""
        failed: list[int] = []
        said = os.read(self.told, processes.CHUNK).decode()
        self.deaf = not said
        for line in said.splitlines():
            word, rank, at = line.split()
            if word == "begun":
                self.begun[int(rank)] = float(at)
                if len(self.begun) == len(self.group.workers):
                    begun = max(self.begun.values())
                    tell(self.events, "started", launch=self.group.launch, at=begun, modelled=self.modelled)
            elif word == "done":
                self.finished.add(int(rank))
            else:
                failed.append(int(rank))
        return failed

    def _record(self, rank: int, killed: set[int], at: float) -> None:
        """Write the record of a worker that did not write one."""
        if Record.read(self.group.folder, rank) is not None:
            return
        code = None if rank in killed else self.exits[rank].code
        Record.of_exit(code, self.begun.get(rank, at), at).write(self.group.folder, rank)

    def _leave_memory(self, rank: int, how: processes.Exit) -> None:
        env = {**self.group.env, **self.group.workers[rank].env}
        inherited = 0 if self.group.program.kind == "exec" else resident_bytes()
        counted = as_counted(how.peak_bytes, len(self.group.workers), inherited)
        leave_behind(self.group.folder, rank, env, counted)


def _open_store(address: str) -> Any:
    """Return a store for the rendezvous: on port 0 it cannot collide, and here it outlives all workers."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but not listed

    return TCPStore(address, 0, is_master=True, wait_for_workers=False)
