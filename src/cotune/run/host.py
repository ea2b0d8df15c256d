"""The host of one worker on another machine, where a Ray actor or Slurm started it.

    scheduler ── host ── worker (the job's program) ── its children

The worker is the one of the local engine. Its host notes when the job's code begins,
writes the record of a worker that could not, and leaves nothing behind. A worker that is
done waits until all are: the host lets it go when every record is in the folder, or the
file `released`. If the host was given a leash, it ends with whoever holds the other end.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from cotune.run import processes
from cotune.run.group_member import FOLDER_SECONDS, GroupMember
from cotune.run.lease import LOOK_SECONDS, Watch
from cotune.run.local.messages import EXIT_SECONDS, Group, Record, Slice, write_whole
from cotune.run.local.worker import PORT, work
from cotune.run.memory import as_counted, leave_behind
from cotune.run.preload import preload

RELEASED = "released"


def host(group: Group, member: GroupMember, leash: int | None = None) -> None:
    """Run one worker to its end; its files are then all in the group's folder."""
    processes.adopt_orphans()
    temporary = tempfile.mkdtemp(prefix="cotune-")
    told = {**os.environ, **group.env}
    env = {
        **told,
        **member.env(told),
        "COTUNE_REPORT": str(Path(group.folder) / f"rank-{member.rank}.jsonl"),
        "TMPDIR": temporary,
    }
    try:
        _Host(replace(group, env=env), member, leash).run()
    finally:
        processes.end_descendants()
        shutil.rmtree(temporary, ignore_errors=True)


class _Host:
    def __init__(self, group: Group, member: GroupMember, leash: int | None) -> None:
        self.group, self.member, self.leash = group, member, leash
        self.rank, self.workers = member.rank, len(member.peers)
        self.began: float | None = None
        self.exit: processes.Exit | None = None
        self.watch = Watch(group.env, f"rank-{member.rank}")
        self.fenced_off = False
        self.done = False
        self.deadline: float | None = None
        self.signals = processes.signals_as_bytes(signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1)
        self.told, self.tell = os.pipe()
        self.held, self.release = os.pipe()
        self.port, self.give_port = os.pipe()

    def run(self) -> None:
        if self.watch.is_fenced_off():
            raise SystemExit("a later start has this run's folder")
        os.write(self.give_port, PORT.pack(0))  # rank 0 opens the store, as under plain variables
        pid = self._fork()
        for inherited in (self.tell, self.held, self.port):
            os.close(inherited)
        while self.exit is None and (self.deadline is None or time.monotonic() < self.deadline):
            self._look(pid)
        if self.fenced_off:  # what lies in the folder now is another start's
            return
        peak_bytes = (self.exit or processes.end_descendants()[pid]).peak_bytes
        leave_behind(self.group.folder, self.rank, self.group.env, as_counted(peak_bytes, self.member.sharing))
        self._record()

    def _fork(self) -> int:
        pid = os.fork()
        if pid == 0:
            processes.signals_as_usual()
            processes.close_all_but({self.tell, self.held, self.port})
            processes.die_with_parent(signal.SIGKILL)
            os.environ.update(self.group.env)
            preload(self.group)
            cores = tuple(sorted(os.sched_getaffinity(0)))
            server = self.member.server is not None
            worker = Slice(self.rank, cores, {}, server=server)
            work(self.group, worker, self.tell, self.held, self.port, sharing=self.member.sharing)
        return pid

    def _look(self, pid: int) -> None:
        """Wait for the next thing to happen, and note it."""
        waiting = self.done and self.release >= 0
        if self.watch.is_fenced_off():
            self.fenced_off, self.deadline = True, time.monotonic()
            return
        left = LOOK_SECONDS if self.deadline is None else max(0.0, self.deadline - time.monotonic())
        sources = [source for source in (self.signals, self.told, self.leash) if source is not None and source >= 0]
        readable, _, _ = select.select(sources, [], [], FOLDER_SECONDS if waiting else min(left, LOOK_SECONDS))
        if self.leash in readable and not os.read(self.leash, processes.CHUNK):
            self.leash, self.deadline = None, time.monotonic()
        if self.signals in readable:
            self._hear(os.read(self.signals, processes.CHUNK), pid)
        if self.told in readable:
            self._listen()
        self.exit = processes.reap().get(pid, self.exit)
        if waiting and self._all_done():
            os.close(self.release)
            self.release, self.deadline = -1, time.monotonic() + EXIT_SECONDS

    def _hear(self, numbers: bytes, pid: int) -> None:
        if signal.SIGUSR1 in numbers:
            self.deadline = time.monotonic()
        elif signal.SIGTERM in numbers:
            self.deadline = time.monotonic() + self.group.term_seconds
            os.kill(pid, signal.SIGTERM)

    def _listen(self) -> None:
        said = os.read(self.told, processes.CHUNK).decode()
        if not said:  # the worker has become another program, or is about to end
            self.told = -1
        for line in said.splitlines():
            word, _, at = line.split()
            if word == "begun":
                self.began = float(at)
                wall = time.time() - (time.monotonic() - self.began)
                begun = Path(self.group.folder) / f"rank-{self.rank}.begun.json"
                write_whole(begun, json.dumps({"at": self.began, "wall": wall}))  # by its own clock, and by the wall's
            self.done = self.done or word == "done"

    def _all_done(self) -> bool:
        names = os.listdir(self.group.folder)  # noqa: PTH208  # asks a network file system anew, as exists() may not
        return RELEASED in names or sum(name.endswith(".result.json") for name in names) == self.workers

    def _record(self) -> None:
        """Write how the worker ended, where it could not or where it was done but then ended by a signal."""
        known = Record.read(self.group.folder, self.rank)
        now = time.monotonic()
        code = None if self.exit is None else self.exit.code
        if known is not None:
            if known.status == "done" and code is not None and code < 0:
                replace(known, signal=-code).write(self.group.folder, self.rank)
            return
        Record.of_exit(code, self.began or now, now).write(self.group.folder, self.rank)


def main() -> None:
    """Host the worker described on standard input, which then is the leash."""
    described = json.loads(sys.stdin.buffer.readline())
    leash = os.dup(0)
    host(Group.from_json(described["group"]), GroupMember.from_json(described["member"]), leash)


if __name__ == "__main__":
    main()
