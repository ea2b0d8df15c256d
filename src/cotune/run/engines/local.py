"""The local engine: worker processes on this machine, forked from one that has torch ready.

    start ─▶ server forks a leader ─▶ leader forks workers ─▶ the job's program
    wait  ◀─ Started, Reported (rank 0's report file or log), Ended

A worker is a slice of the machine: a share of the cores, a GPU or a share of one. Time
is the system's monotonic clock, which the workers read too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotune.callbacks import injected
from cotune.devices.present import visible_gpus
from cotune.errors import EngineError, UsageError
from cotune.jobfile.pattern import pattern_of
from cotune.run.command import check_servers, fill, numbers, program
from cotune.run.environment import MALLOC, free_ports, group_env, node_env, rank_env
from cotune.run.launch import TERM_SECONDS, Launch, PolledEngine, Started
from cotune.run.lease import Lease, leased
from cotune.run.local.connection import Connection
from cotune.run.local.launch_monitor import LocalLaunch
from cotune.run.local.messages import Group, Node, Program, Slice
from cotune.run.local.nodes import EmulatedNodes, Rate
from cotune.run.local.shares import Shares, gpu_env, mps_daemon, needs_mps
from cotune.run.reasons import aborted, foreign, memory_kills, reason
from cotune.types import Cause, Config, Failure

MOST_PROCESSES = 1000  # each holds pipes and a log: a machine has some 4,000 process ids and 1,024 open files
_CLOSE_SECONDS = 5.0  # for the server to end what it started
_IMPORTING_SECONDS = 0.3  # while it imports for its first workers, and hears nothing


@dataclass
class Local(PolledEngine[LocalLaunch]):
    """Worker processes on this machine, from a fork server that has torch imported where it may be needed.

    `cores` and `gpus` say how many to use (all); `slices` into how many equal parts the
    cores are cut (as many as there are cores, so that a worker is one core; the workers of a
    launch on GPUs share all of them, as their loaders need), `gpu_slices`
    into how many each GPU is cut (as many as the workers of a launch need); `isolate`
    whether workers live in a PID namespace of their own where the system allows it.

    With `nodes` every worker is on an emulated node of its own: `cores` is then the share
    of a core that a node has, `link` its rate to the others and `disk` that of its data, one for all or one for each.
    Nodes may stand in machines of `per_machine` each, whose `trunk` is the rate from one to another; `devices` names
    what each node is, and a worker of a device is then on a node of that name.
    """

    cores: float | Sequence[float] | None = None
    nodes: int | None = None
    link: Rate | Sequence[Rate] | None = None
    disk: Rate | Sequence[Rate] | None = None
    per_machine: int | None = None
    trunk: Rate | None = None
    devices: Sequence[str] | None = None
    slices: int | None = None
    gpus: int | None = None
    gpu_slices: int | None = None
    poll: float = 0.02
    term_seconds: float = TERM_SECONDS
    isolate: bool = True

    def __post_init__(self) -> None:
        cores, gpus = sorted(os.sched_getaffinity(0)), visible_gpus()
        used = self._plain_cores()
        for name, asked, least, most in (
            ("cores", used, 1, len(cores)),
            ("gpus", self.gpus, 0, len(gpus)),
            ("slices", self.slices, 1, None),
            ("gpu_slices", self.gpu_slices, 1, None),
        ):
            if asked is not None and (asked < least or (most is not None and asked > most)):
                limits = f"at least {least}" if most is None else f"{least} to {most} on this machine"
                raise UsageError(f"the local engine can have {name} {limits}, not {asked}")
        self._nodes = self._emulated()
        self._cores = Shares("core", cores[:used])
        self._gpus = Shares("gpu", gpus[: self.gpus])
        self._server: Connection | None = None
        self._mps = False
        super().__post_init__()

    def _plain_cores(self) -> int | None:
        """Return how many cores to use; a share of one, or a link, is for emulated nodes."""
        if self.nodes is not None:
            return None
        only_nodes_have = (self.link, self.disk, self.per_machine, self.trunk, self.devices)
        if any(given is not None for given in only_nodes_have) or not isinstance(self.cores, int | None):
            raise UsageError(
                "a share of a core, a link, a disk or devices belong to emulated nodes; say how many, such as nodes: 8"
            )
        return self.cores

    def _emulated(self) -> EmulatedNodes | None:
        if self.nodes is None:
            return None
        given = (self.nodes, self.cores, self.link, self.disk)
        return EmulatedNodes.of(*given, per_machine=self.per_machine, trunk=self.trunk, devices=self.devices)

    def start(self, launch: Launch) -> None:
        """Start a launch; what cannot work is said now, before any process starts."""
        self._refuse_twice(launch.id)
        on_nodes = self._nodes.of_units(launch.config, launch.nodes) if self._nodes else []
        job, known = launch.job, numbers(launch)
        cwd, own = Path(job.folder).absolute(), dict(job.env)
        base = {"PYTHONUNBUFFERED": "1", **os.environ, **own}
        found = program(fill(job.command, known), cwd, base, own)
        check_servers(launch.config, found)
        pattern_of(job)  # a wrong one is told before anything is removed
        lease = leased(launch.folder, launch.fence)
        if self._server is not None and self._server.is_lost:
            self._lost(self._server.last_words())
        try:
            lease.settle()
            running = self._take(launch, found, lease, on_nodes)
        except BaseException:
            lease.release()
            raise
        try:
            env = {**base, **group_env(launch, known, lease, running.temporary, running.ports)}
            env |= injected.on_path(env) if found.kind == "exec" else {}
            slices = self._slices(running, own)
        except BaseException:
            self._give_back(running)
            raise
        group = Group(launch.id, str(running.folder), str(cwd), found, env, slices, launch.seed, self.term_seconds)
        self._running[launch.id] = running
        self._connect().send("start", group=group.to_json())

    def stop(self, launch: str, grace: float = 5.0) -> None:
        """Ask a launch to end by its stop file, and end it after `grace` seconds."""
        running = self._running.get(launch)
        if running is None:
            return
        with contextlib.suppress(OSError):  # on a full disk only the signal after `grace` is left
            (running.folder / "stop").touch()
        running.stopped = True
        running.terminate_at = self.now() + grace

    def close(self) -> None:
        """End everything this engine started."""
        if self._server is not None:
            importing = self._running and not any(running.started for running in self._running.values())
            self._server.close(_IMPORTING_SECONDS if importing else _CLOSE_SECONDS)
        self._server = None
        self._mps = False
        for running in self._running.values():
            self._give_back(running)
        self._running.clear()

    def _connect(self) -> Connection:
        if self._server is None:
            self._server = Connection(isolate=self.isolate)
        return self._server

    def _take(self, launch: Launch, found: Program, lease: Lease, on_nodes: list[int]) -> LocalLaunch:
        """Clear the launch's folder, and take a share of the machine for each worker."""
        if launch.config.units > MOST_PROCESSES:
            asked = f"{launch.config.units:,} workers and servers"
            raise UsageError(
                f"one machine runs at most {MOST_PROCESSES:,} worker processes, not {asked}; ask for fewer"
            )
        _clear(lease.folder)
        workers, on_gpu = launch.config.workers, _on_gpu(launch.config)
        share = self._share(on_gpu)
        taken = {port for running in self._running.values() for port in running.ports}
        return LocalLaunch(
            launch=launch,
            lease=lease,
            program=found,
            temporary=Path(tempfile.mkdtemp(dir=self._connect().folder)),
            cores=[self._cores.take(share) for _ in range(launch.config.units)],
            gpus=[gpu for wanted in on_gpu if wanted for gpu in self._gpus.take(1)],
            ports=free_ports(workers + 1, taken),
            memory_kills=memory_kills(),
            nodes=self._nodes,
            on_nodes=on_nodes,
        )

    def _share(self, on_gpu: Sequence[bool]) -> int:
        """Return how many cores each worker gets."""
        units = len(self._cores.units)
        if self._nodes:
            return units
        if self.slices is None and self._gpus.units and all(on_gpu):
            return max(1, units // len(on_gpu))
        return max(1, units // (self.slices or units))

    def _give_back(self, running: LocalLaunch) -> None:
        for cores in running.cores:
            self._cores.give_back(cores)
        self._gpus.give_back(running.gpus)
        running.lease.release()
        shutil.rmtree(running.temporary, ignore_errors=True)

    def _slices(self, running: LocalLaunch, own: Mapping[str, str]) -> tuple[Slice, ...]:
        """Return what each worker gets; start the daemon by which workers share a GPU if they do."""
        pipe = self._connect().folder / "mps"
        if needs_mps(running.gpus, self.gpu_slices) and not self._mps:
            argv, env = mps_daemon(pipe)
            self._connect().send("daemon", argv=argv, env=env)
            self._mps = True
        workers = running.launch.config.workers
        on_gpu = [*_on_gpu(running.launch.config), *[False] * running.launch.config.servers]
        mixed = not all(on_gpu[:workers])
        own_malloc = {name: own[name] for name in MALLOC.keys() & own.keys()}
        return tuple(
            Slice(
                rank,
                cores,
                {
                    **({} if on_gpu[rank] and running.gpus else {**MALLOC, **own_malloc}),
                    "OMP_NUM_THREADS": own.get("OMP_NUM_THREADS", str(1 if self._nodes else len(cores))),
                    **rank_env(rank, running.folder, running.ports),
                    **gpu_env(
                        running.gpus if on_gpu[rank] else [], sum(on_gpu[:rank]), pipe, self.gpu_slices, alone=mixed
                    ),
                    **({} if rank < workers else {"COTUNE_SERVER": str(rank - workers)}),
                },
                self._node(rank, running),
                server=rank >= workers,
            )
            for rank, cores in enumerate(running.cores)
        )

    def _node(self, rank: int, running: LocalLaunch) -> Node | None:
        if self._nodes is None:
            return None
        nodes, at = self._nodes, running.on_nodes[rank]
        env = node_env(rank, running.launch.config.workers, running.ports)
        return Node(nodes.shares[at], nodes.rates[at], env, nodes.disks[at], nodes.machine(at), nodes.trunk)

    def _listen(self, timeout: float) -> None:
        """Take in what the server says."""
        if self._server is None:
            time.sleep(timeout)
            return
        said = self._server.receive(timeout)
        if said is None:
            self._lost(self._server.last_words())
            return
        for event in said:
            running = self._running.get(event.get("launch", ""))
            if running is not None:
                self._told(running, event, self._server)

    def _told(self, running: LocalLaunch, event: Mapping[str, Any], server: Connection) -> None:
        if event["event"] == "started":
            running.started, running.begun, running.modelled = True, event["at"], event["modelled"]
            self._events.append(Started(running.launch.id, event["at"], running.modelled))
        elif event["event"] == "ended":
            failed, running.apart = event["failed"], event["apart"]
            kills = memory_kills() - running.memory_kills
            why = None if failed is None else foreign(reason(running.folder, failed, kills), running.program)
            self._end(running, event["at"], why, aborted([(rank, number) for rank, number in event["aborted"]]))
        else:
            self._end(running, self.now(), _broken("the launch's leading process ended", server.last_words()))

    def _lost(self, words: str) -> None:
        """Take in that the server is gone, and all that it ran with it."""
        for running in list(self._running.values()):
            self._end(running, self.now(), _broken("the engine's server ended", words))
        self.close()

    def _end(self, running: LocalLaunch, at: float, why: Failure | None, warning: str | None = None) -> None:
        self._events.extend(running.hear(self.now(), last=True))
        del self._running[running.launch.id]
        self._give_back(running)
        self._events.append(running.ended(at, why, warning))

    def _attend(self, running: LocalLaunch) -> None:
        """Take in what a launch reports, and end it when it is time."""
        spoiled = running.spoiled
        self._events.extend(running.hear(self.now()))
        if running.spoiled and not spoiled:
            self._signal(running, signal.SIGUSR1)
        if running.time_is_up(self.now()):
            running.terminate_at, running.terminating = None, True
            self._signal(running, signal.SIGTERM)

    def _signal(self, running: LocalLaunch, number: signal.Signals) -> None:
        self._connect().send("signal", launch=running.launch.id, signal=int(number))


def _on_gpu(config: Config) -> list[bool]:
    """Return which ranks want a GPU; those of a pipeline's CPU stages do not."""
    return [stage.device != "cpu" for stage in config.stages for _ in range(stage.workers)]


def _clear(folder: Path) -> None:
    """Clear the launch's folder of the marks of an earlier start."""
    try:
        (folder / "checkpoint").mkdir(exist_ok=True)
        for old in [folder / "stop", *folder.glob("rank-*.json")]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise EngineError(f"cannot write to the run's folder {folder}: {error.strerror}") from None


def _broken(what: str, words: str) -> Failure:
    return Failure(f"{what}: {words}" if words else what, Cause.OUTSIDE)
