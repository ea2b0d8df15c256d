"""The local engine: worker processes on this machine, forked from one that has torch ready.

    start ─▶ server forks a leader ─▶ leader forks workers ─▶ the job's program
    wait  ◀─ Started, Reported (rank 0's report file or log), Ended

A worker is a slice of the machine: a share of the cores, a GPU or a share of one. Time
is the system's monotonic clock, which the workers read too.
"""

from __future__ import annotations

import math
import os
import re
import signal
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from cotune.errors import UsageError
from cotune.run import Ended, Event, Launch, Reported, Started
from cotune.run._command import fill, numbers, program
from cotune.run._connection import Connection
from cotune.run._environment import MALLOC, free_ports, group_env, rank_env
from cotune.run._gpus import gpu_env, mps_daemon, visible_gpus
from cotune.run._messages import Group, Slice
from cotune.run._reasons import aborted, memory_kills, reason
from cotune.run._shares import Shares
from cotune.run._tail import Tail, compiled, from_log, from_report


@dataclass
class _Running:
    """One launch while it runs: what was taken for it, what was heard, what was decided."""

    launch: Launch
    folder: Path
    report: Tail
    log: Tail | None
    pattern: re.Pattern[str] | None
    cores: list[tuple[int, ...]]
    gpus: list[int]
    ports: list[int]
    memory_kills: int
    stopped: bool = False
    target_met: bool = False
    terminate_at: float | None = None
    spoiled: str | None = None
    unread: int = 0


@dataclass
class Local:
    """Worker processes on this machine, from a fork server that has torch imported.

    `cores` and `gpus` say how many to use (all); `slices` into how many equal parts the
    cores are cut (as many as there are cores, so that a worker is one core); `target_grace` how many seconds a
    job that met its target may take to finish by itself.
    """

    cores: int | None = None
    slices: int | None = None
    gpus: int | None = None
    poll: float = 0.02
    target_grace: float = 10.0
    term_seconds: float = 2.0

    def __post_init__(self) -> None:
        allowed = sorted(os.sched_getaffinity(0))
        for name, value in (("cores", self.cores), ("slices", self.slices)):
            if value is not None and value < 1:
                raise UsageError(f"the local engine needs at least 1 for {name}, not {value}")
        if self.cores is not None and self.cores > len(allowed):
            raise UsageError(f"this machine lets cotune use {len(allowed)} cores, not {self.cores}")
        self._cores = Shares(allowed[: self.cores])
        self._gpus = Shares(visible_gpus()[: self.gpus])
        self._server: Connection | None = None
        self._mps: Path | None = None
        self._running: dict[str, _Running] = {}
        self._events: deque[Event] = deque()

    def now(self) -> float:
        """Return the system's monotonic time in seconds."""
        return time.monotonic()

    def start(self, launch: Launch) -> None:
        """Start a launch; what cannot work is said now, before any process starts."""
        if launch.id in self._running:
            raise ValueError(f"launch {launch.id!r} is already running")
        if launch.config.servers:
            raise UsageError("the local engine has no parameter servers; use 0 servers")
        job, known = launch.job, numbers(launch)
        cwd = Path(job.folder).absolute()
        own = dict(job.env)
        base = {**os.environ, **MALLOC, **own}
        found = program(fill(job.command, known), cwd, base, own)
        pattern = compiled(job.pattern) if job.pattern else None
        folder = launch.folder.absolute()
        _clear(folder)
        running = self._take(launch, folder, pattern)
        temporary = self._connect().folder / f"{len(self._running)}-{os.urandom(4).hex()}"
        temporary.mkdir()
        env = {"PYTHONUNBUFFERED": "1", **base, **group_env(launch, known, folder, temporary, running.ports)}
        group = Group(
            launch.id, str(folder), str(cwd), found, env, self._slices(running, own), launch.seed, self.term_seconds
        )
        self._running[launch.id] = running
        self._connect().send("start", group=group.to_json())

    def stop(self, launch: str, grace: float = 5.0) -> None:
        """Ask a launch to end by its stop file, and end it after `grace` seconds."""
        running = self._running.get(launch)
        if running is None:
            return
        (running.folder / "stop").touch()
        running.stopped = True
        running.terminate_at = self.now() + grace

    def wait(self, timeout: float) -> Event | None:
        """Return the next event, or None after `timeout` seconds without one."""
        until = self.now() + timeout
        while not self._events:
            left = until - self.now()
            self._listen(min(left, self.poll))
            for running in list(self._running.values()):
                self._read(running)
                self._hasten(running)
            if left <= 0:
                break
        return self._events.popleft() if self._events else None

    def close(self) -> None:
        """End everything this engine started."""
        if self._server is not None:
            self._server.close()
        self._server = None
        self._mps = None
        self._running.clear()

    def _connect(self) -> Connection:
        if self._server is None:
            self._server = Connection()
        return self._server

    def _take(self, launch: Launch, folder: Path, pattern: re.Pattern[str] | None) -> _Running:
        """Take a share of the machine for each worker."""
        workers = launch.config.workers
        share = max(1, len(self._cores.units) // (self.slices or len(self._cores.units)))
        on_gpu = launch.config.device != "cpu"
        taken = {port for running in self._running.values() for port in running.ports}
        return _Running(
            launch,
            folder,
            Tail(folder / "rank-0.jsonl"),
            Tail(folder / "rank-0.log") if pattern else None,
            pattern,
            [self._cores.take(share) for _ in range(workers)],
            [gpu for _ in range(workers) for gpu in self._gpus.take(1)] if on_gpu else [],
            free_ports(workers + 1, taken),
            memory_kills(),
        )

    def _slices(self, running: _Running, own: dict[str, str]) -> tuple[Slice, ...]:
        pipe = self._connect().folder / "mps"
        if len(set(running.gpus)) < len(running.gpus) and self._mps is None:
            argv, env = mps_daemon(pipe)
            self._connect().send("daemon", argv=argv, env=env)
            self._mps = pipe
        return tuple(
            Slice(
                rank,
                cores,
                {
                    "OMP_NUM_THREADS": own.get("OMP_NUM_THREADS", str(len(cores))),
                    **rank_env(rank, running.folder, running.ports),
                    **gpu_env(running.gpus, rank, pipe),
                },
            )
            for rank, cores in enumerate(running.cores)
        )

    def _listen(self, timeout: float) -> None:
        """Take in what the server says."""
        if self._server is None:
            time.sleep(max(0.0, timeout))
            return
        said = self._server.receive(timeout)
        if said is None:
            self._lost()
            return
        for event in said:
            running = self._running.get(event.get("launch", ""))
            if running is None:
                continue
            if event["event"] == "started":
                self._events.append(Started(running.launch.id, event["at"]))
            elif event["event"] == "ended":
                failed = event["failed"]
                kills = memory_kills() - running.memory_kills
                why = None if failed is None else reason(running.folder, failed, kills)
                self._end(running, event["at"], why, aborted([(rank, number) for rank, number in event["aborted"]]))
            else:
                self._end(running, self.now(), "the launch's leading process was killed", None)

    def _lost(self) -> None:
        """The server is gone, and all that it ran with it."""
        assert self._server is not None
        words = self._server.last_words()
        for running in list(self._running.values()):
            self._end(running, self.now(), f"the engine's server ended{': ' + words if words else ''}", None)
        self.close()

    def _end(self, running: _Running, at: float, why: str | None, warning: str | None) -> None:
        """Tell that a launch is over; what it was told to do outweighs how it then ended."""
        self._read(running, last=True)
        del self._running[running.launch.id]
        for cores in running.cores:
            self._cores.give_back(cores)
        self._gpus.give_back(running.gpus)
        if running.unread:
            warning = "; ".join(filter(None, [warning, f"{running.unread} lines of the report could not be read"]))
        name = running.launch.id
        if running.spoiled:
            self._events.append(Ended(name, at, "failed", running.spoiled, warning))
        elif running.target_met:
            self._events.append(Ended(name, at, "done", None, "; ".join(filter(None, [warning, why])) or None))
        elif running.stopped:
            self._events.append(Ended(name, at, "stopped", None, warning))
        else:
            self._events.append(Ended(name, at, "failed" if why else "done", why, warning))

    def _read(self, running: _Running, *, last: bool = False) -> None:
        """Take in what rank 0 has reported since."""
        name = running.launch.id
        for line in running.report.lines(last=last):
            said = from_report(name, line)
            if said is None:
                running.unread += 1
            else:
                self._heard(running, said)
        if running.log is not None and running.pattern is not None:
            for line in running.log.lines(last=last):
                try:
                    found = from_log(name, line, running.pattern, self.now())
                except ValueError as error:
                    self._spoil(running, f"the pattern found no number in {line.strip()[:80]!r}: {error}")
                    continue
                if found is not None:
                    self._heard(running, found)

    def _heard(self, running: _Running, said: Reported) -> None:
        if said.accuracy is not None and not math.isfinite(said.accuracy):
            when = "" if said.epoch is None else f" after epoch {said.epoch:g}"
            self._spoil(running, f"rank 0 reported {running.launch.job.metric} {said.accuracy}{when}")
            return
        self._events.append(said)
        target, sign = running.launch.target, running.launch.job.sign
        if target is not None and said.accuracy is not None and sign * said.accuracy >= sign * target:
            running.target_met = True
            grace = self.now() + self.target_grace
            running.terminate_at = min(running.terminate_at or grace, grace)

    def _spoil(self, running: _Running, why: str) -> None:
        """End a launch whose numbers are worth nothing."""
        if running.spoiled is None:
            running.spoiled = why
            self._connect().send("signal", launch=running.launch.id, signal=int(signal.SIGUSR1))

    def _hasten(self, running: _Running) -> None:
        if running.terminate_at is not None and self.now() >= running.terminate_at:
            running.terminate_at = None
            self._connect().send("signal", launch=running.launch.id, signal=int(signal.SIGTERM))


def _clear(folder: Path) -> None:
    """Make the launch's folder, without the marks of an earlier start."""
    (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
    for old in [folder / "stop", *folder.glob("rank-*.result.json")]:
        old.unlink(missing_ok=True)
