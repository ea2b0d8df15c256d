"""The Kubeflow engine: a TrainJob per launch by the Kubeflow SDK's trainer client, results by a shared folder.

    start ─▶ TrainerClient.train ─▶ pods: torchrun ─▶ a task for each rank hosts its worker
    wait  ◀─ Started, Reported, Ended: from the files that the workers write

The client only tells of a job that died without a word. The run's folder, and the job's, must be on a volume that all
pods have at the same path, and the image must have cotune. It was tried for real with the SDK's local-process backend
alone (`backend: local`): no API server was at hand.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass

from cotune.errors import UsageError, missing_extra
from cotune.run.kubeflow.client import TrainRequest
from cotune.run.kubeflow.task import FINISHED_MARK, GROUP, STATUS
from cotune.run.launch import TERM_SECONDS, Launch, PolledEngine
from cotune.run.remote import RemoteLaunch, prepared_launch
from cotune.safety import private
from cotune.types import Cause, Failure

LOG = "kubeflow.log"  # what the client said, and the job's own where it is over
_CLOSE_SECONDS = 20.0


@dataclass
class _Submitted:
    """A launch, the client that watches its TrainJob, and since when that is known to be over."""

    monitor: RemoteLaunch
    client: subprocess.Popen[str]
    over_since: float | None = None

    def let_go(self) -> None:
        """Have the client delete the TrainJob, and end."""
        if self.client.stdin is not None:
            self.client.stdin.close()

    def wait(self, seconds: float) -> None:
        try:
            self.client.wait(seconds)
        except subprocess.TimeoutExpired:
            self.client.kill()
            self.client.wait()

    def without_a_word(self) -> Failure:
        """Return why a job is over whose workers have not said how they ended."""
        status, log = self.monitor.folder / STATUS, (self.monitor.folder / LOG).read_text(errors="replace")
        said = [line.strip() for line in log.splitlines() if line.strip()]
        ended = f"ended as {status.read_text()}" if status.exists() else "was not taken"
        return Failure(
            f"TrainJob of {self.monitor.launch.job.name} {ended}: {said[-1] if said else 'no word'}", Cause.OUTSIDE
        )


@dataclass
class Kubeflow(PolledEngine[_Submitted]):
    """Worker processes in the pods of a Kubeflow TrainJob.

    `backend` is `kubernetes`, or `local` for processes of this machine; `namespace`, `runtime` and `image` are the
    TrainJob's; `per_node` workers share a pod, each with `cpus` cores, and a GPU unless its device is `cpu`;
    `python` is the interpreter in the image.
    """

    backend: str = "kubernetes"
    namespace: str | None = None
    runtime: str = "torch-distributed"
    image: str | None = None
    per_node: int = 1
    cpus: int = 1
    python: str = "python"
    poll: float = 0.1
    ask_seconds: float = 5.0
    term_seconds: float = TERM_SECONDS

    def __post_init__(self) -> None:
        if self.backend not in ("kubernetes", "local"):
            raise UsageError(f"the kubeflow engine's backend is kubernetes or local, not {self.backend!r}")
        if min(self.per_node, self.cpus) < 1:
            raise UsageError("the kubeflow engine has at least 1 worker for each node, with at least 1 cpu")
        super().__post_init__()

    def start(self, launch: Launch) -> None:
        """Have a client create the TrainJob of a launch; what cannot work is said now."""
        self._refuse_twice(launch.id)
        if launch.config.servers or len(launch.config.stages) > 1:
            raise UsageError("the kubeflow engine has neither parameter servers nor several kinds of device")
        if launch.config.workers % self.per_node and self.backend != "local":
            raise UsageError(f"{launch.config.workers} workers are no whole number of nodes of {self.per_node}")
        if importlib.util.find_spec("kubeflow") is None:
            raise missing_extra("the kubeflow engine needs the Kubeflow SDK, which", "kubeflow")
        with prepared_launch(launch, self.term_seconds, lambda _: None) as (group, monitor, _):
            # with the values of the job's variables
            private.write(monitor.folder / GROUP, json.dumps(group.to_json()))
            self._running[launch.id] = _Submitted(monitor, self._client(launch, monitor))

    def _client(self, launch: Launch, monitor: RemoteLaunch) -> subprocess.Popen[str]:
        """Return the process that creates and watches the TrainJob of a launch."""
        local, workers, folder = self.backend == "local", launch.config.workers, monitor.folder
        python = sys.executable if local else self.python
        told = (str(folder), str(monitor.lease.fence), str(workers), str(self.cpus))
        gpus = {"gpu": self.per_node} if launch.config.device != "cpu" else {}
        request = TrainRequest(
            str(folder),
            (python, "-P", "-m", "cotune.run.kubeflow.task", *told),
            self.backend,
            self.runtime,
            1 if local else workers // self.per_node,
            {"cpu": self.cpus * self.per_node, **gpus},
            self.namespace,
            self.image,
            self.ask_seconds,
        )
        with (folder / LOG).open("w") as log:
            command = [sys.executable, "-P", "-m", "cotune.run.kubeflow.client"]
            env = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
            client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, env=env)
        assert client.stdin is not None
        client.stdin.write(request.to_json() + "\n")
        client.stdin.flush()
        return client

    def stop(self, launch: str, grace: float = 5.0) -> None:
        """Ask a launch to end by its stop file, and have its client delete the job after `grace` seconds."""
        if launch in self._running:
            self._running[launch].monitor.stop(self.now(), grace)

    def _listen(self, timeout: float) -> None:
        time.sleep(timeout)

    def close(self) -> None:
        """Have the jobs of this engine deleted, and return when they are over."""
        ending = list(self._running.values())
        self._running.clear()
        for running in ending:
            running.let_go()
        for running in ending:
            running.wait(_CLOSE_SECONDS)
            running.monitor.lease.release()

    def _attend(self, running: _Submitted) -> None:
        """Take in what a launch tells, and end it when it is over or when it is time."""
        monitor, now = running.monitor, self.now()
        self._events.extend(monitor.look(now))
        if running.client.poll() is not None:
            running.over_since = running.over_since or now
        if monitor.is_over(FINISHED_MARK, running.over_since, now):
            self._end(running)
        elif not monitor.terminating and ((monitor.settled(now) and not monitor.all_done) or monitor.time_is_up(now)):
            monitor.terminating = True
            running.let_go()

    def _end(self, running: _Submitted) -> None:
        monitor, at = running.monitor, self.now()
        self._events.extend(monitor.last_events(at))
        why = monitor.why()
        if why is None and not monitor.all_done and not monitor.terminating:
            why = running.without_a_word()
        running.let_go()
        running.wait(_CLOSE_SECONDS)
        (monitor.folder / GROUP).unlink(missing_ok=True)
        del self._running[monitor.launch.id]
        self._events.append(monitor.concluded(at, why))
