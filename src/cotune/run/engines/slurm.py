"""The Slurm engine: a batch job per launch, one task per worker, results by the shared folder.

    start ─▶ sbatch ─▶ srun: each task finds its peers and hosts its worker
    wait  ◀─ Started, Reported, Ended: from the files that the workers write

squeue only tells of a job that died without a word. Only jobs submitted by this engine
are ever cancelled. The run's folder must be on a disk that all nodes share.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from cotune.errors import UsageError
from cotune.run.launch import TERM_SECONDS, Launch, PolledEngine
from cotune.run.remote import RemoteLaunch, prepared_launch
from cotune.run.slurm.batch import FINISHED_MARK, GROUP, JOB, LOG, SCRIPT, batch_script, resources, time_limit
from cotune.run.slurm.queue import (
    FINISHED,
    GONE,
    Asking,
    cancel,
    cores_of_a_gpu,
    described_nodes,
    end_earlier,
    require_slurm,
    submit,
)
from cotune.safety import private
from cotune.types import Cause, Failure

_CLOSE_SECONDS = 15.0
_ANSWER_SECONDS = 10.0
_BY_SLURM = ("CANCELLED", "DEADLINE", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT")
_CAUSES = {"OUT_OF_MEMORY": Cause.MEMORY, "NODE_FAIL": Cause.OUTSIDE, "PREEMPTED": Cause.OUTSIDE}


@dataclass
class _Submitted:
    """A launch, the job that it is to Slurm, and when Slurm said that the job was over."""

    monitor: RemoteLaunch
    job: str
    state: str = "PENDING"
    over_since: float | None = None
    asked_why: bool = False


@dataclass
class Slurm(PolledEngine[_Submitted]):
    """Worker processes as the tasks of a Slurm job, on nodes that share the run's folder.

    `partition`, `account` and `options` go to sbatch as they are; `cpus` is what one worker
    gets (1, or a GPU's share of its node's); `devices` says how to ask for a device (by default a GPU of that type);
    `ask_seconds` is how often squeue is asked.
    """

    partition: str | None = None
    account: str | None = None
    options: tuple[str, ...] = ()
    cpus: int | None = None
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    poll: float = 0.1
    ask_seconds: float = 5.0
    term_seconds: float = TERM_SECONDS

    def __post_init__(self) -> None:
        if self.cpus is not None and self.cpus < 1:
            raise UsageError(f"the slurm engine needs at least 1 cpu for each worker, not {self.cpus}")
        if isinstance(self.options, str):
            raise UsageError(f"the slurm engine's options are a list, such as [--qos=low], not {self.options!r}")
        super().__post_init__()
        self._asking: Asking | None = None
        self._asked = 0.0

    def start(self, launch: Launch) -> None:
        """Submit a launch; what cannot work is said now, before it waits in a queue."""
        self._refuse_twice(launch.id)
        if launch.config.servers:
            raise UsageError("the slurm engine has no parameter servers; use 0 servers")
        require_slurm()
        with prepared_launch(launch, self.term_seconds, end_earlier) as (group, monitor, _):
            folder = monitor.folder
            private.write(folder / GROUP, json.dumps(group.to_json()))  # with the values of the job's variables
            script = folder / SCRIPT
            script.write_text(batch_script(launch, folder, monitor.lease.fence, self._components(launch)))
            self._running[launch.id] = _Submitted(monitor, submit(script))
            (folder / JOB).write_text(self._running[launch.id].job)

    def stop(self, launch: str, grace: float = 5.0) -> None:
        """Ask a launch to end by its stop file, and cancel its job after `grace` seconds."""
        if launch in self._running:
            self._running[launch].monitor.stop(self.now(), grace)

    def close(self) -> None:
        """Cancel the jobs of this engine, and return when they are over."""
        jobs, ending = [running.job for running in self._running.values()], list(self._running.values())
        self._running.clear()
        cancel(jobs)
        until = self.now() + _CLOSE_SECONDS
        while jobs and self.now() < until:
            states = Asking(jobs).answer(_CLOSE_SECONDS) or {}
            jobs = [job for job in jobs if states.get(job) not in (*FINISHED, GONE)]
            time.sleep(self.poll if jobs else 0)
        for running in ending:
            running.monitor.lease.release()
        if self._asking is not None:
            self._asking.close()
            self._asking = None

    def _components(self, launch: Launch) -> list[list[str]]:
        """Return the options of every stage's workers: more than one list makes a heterogeneous job."""
        where = {"--partition": self.partition, "--account": self.account}
        common = [
            *(f"{name}={value}" for name, value in where.items() if value),
            *time_limit(launch.seconds_limit),
            *self.options,
        ]
        return [
            [f"--ntasks={stage.workers}", *resources(stage.device, self.cpus_for(stage.device), self.devices), *common]
            for stage in launch.config.stages
        ]

    def cpus_for(self, device: str) -> int:
        """Return the cores of one worker: as the settings say, or a GPU's share of its node's cores."""
        if self.cpus is not None:
            return self.cpus
        return 1 if device == "cpu" else cores_of_a_gpu(described_nodes(self.partition), device)

    def _listen(self, timeout: float) -> None:
        """Take in what squeue says, and ask it again when it is time."""
        time.sleep(timeout)
        if self._asking is not None:
            states = self._asking.answer()
            if states is None:
                return
            self._asking = None
            for running in self._running.values():
                running.state = states.get(running.job, running.state)
                if running.state in (*FINISHED, GONE):
                    running.over_since = running.over_since or self.now()
        if self._running and self.now() >= self._asked + self.ask_seconds:
            self._asked = self.now()
            self._asking = Asking([running.job for running in self._running.values()])

    def _attend(self, running: _Submitted) -> None:
        """Take in what a launch tells, and end it when it is over or when it is time."""
        monitor, now = running.monitor, self.now()
        self._events.extend(monitor.look(now))
        if monitor.is_over(FINISHED_MARK, running.over_since, now):
            self._end(running)
            return
        if monitor.terminating:
            return
        stuck = monitor.settled(now) and not monitor.all_done and not self._ends_by_itself(running)
        if stuck or monitor.time_is_up(now):
            monitor.terminating = True
            cancel([running.job])
            self._asked = 0.0

    def _ends_by_itself(self, running: _Submitted) -> bool:
        """Say whether Slurm is ending a job whose workers were ended by a signal: its limit, or somebody's scancel."""
        if running.monitor.by_signal and not running.asked_why:
            running.asked_why = True
            told = Asking([running.job]).answer(_ANSWER_SECONDS) or {}
            running.state = told.get(running.job, running.state)
            self._asked = 0.0
        return running.state in (*FINISHED, GONE, "COMPLETING")

    def _end(self, running: _Submitted) -> None:
        monitor, at = running.monitor, self.now()
        self._events.extend(monitor.last_events(at))
        why = monitor.why()
        silent = why is None and not monitor.all_done
        if not monitor.terminating and (silent or (monitor.by_signal and running.state in _BY_SLURM)):
            why = self._without_a_word(running)
        (monitor.folder / GROUP).unlink(missing_ok=True)
        del self._running[monitor.launch.id]
        self._events.append(monitor.concluded(at, why))

    def _without_a_word(self, running: _Submitted) -> Failure:
        """Return why a job is over whose workers have not said how they ended."""
        monitor, state = running.monitor, running.state
        if state == "TIMEOUT":
            limit = ", ".join(self._limit(monitor.launch))
            return Failure(f"Slurm job {running.job} reached its time limit ({limit})")
        log = monitor.folder / LOG
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        said = f": {lines[-1].strip()}" if lines else ""
        return Failure(f"Slurm job {running.job} ended as {state}{said}", _CAUSES.get(state, Cause.JOB))

    def _limit(self, launch: Launch) -> list[str]:
        return time_limit(launch.seconds_limit) or ["the partition's own"]
