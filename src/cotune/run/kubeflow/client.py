"""The Kubeflow SDK's trainer client, in a process of its own for each launch: it creates a TrainJob and watches it.

    engine ─stdin: what to train▶ client ─▶ TrainJob
    folder ◀─ kubeflow.job: its name, kubeflow.status: how it stands

A call to an API server that does not answer holds up nobody then, and the SDK's local backend, which changes the
directory of the process it is in, changes this one's. When the pipe is closed, or the folder says so, the TrainJob is
deleted: that of an engine that was killed too.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotune.run.kubeflow.task import END, FINISHED_MARK, JOB, LOOK_SECONDS, OVER, STATUS
from cotune.run.local.messages import write_whole

_END_SECONDS = 15.0  # for processes of this machine to end


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """What a client is to train, and where."""

    folder: str
    command: tuple[str, ...]  # of every node
    backend: str
    runtime: str
    nodes: int
    resources: dict[str, int]
    namespace: str | None
    image: str | None
    ask_seconds: float

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def start_node(told: dict[str, list[str]] | None = None, **named: list[str]) -> None:  # noqa: D103  # shipped as text
    import subprocess
    import sys

    # The local backend hands its arguments over as one, the others by name.
    sys.exit(subprocess.call((told or named)["command"]))


def main() -> None:
    """Train what standard input says, and watch it until it is over or nobody wants it any more."""
    os.chdir("/")
    request = TrainRequest(**json.loads(sys.stdin.readline()))
    folder, client = Path(request.folder), _client(request)
    earlier = folder / JOB
    if earlier.exists() and request.backend != "local":  # of a start whose client was killed as well
        _delete(client, earlier.read_text())
    name = _train(client, request)
    write_whole(folder / JOB, name)
    asked, status = 0.0, ""
    while status not in OVER and not (folder / END).exists():
        if time.monotonic() >= asked + request.ask_seconds:
            asked, status = time.monotonic(), str(client.get_job(name).status)
            write_whole(folder / STATUS, status)
        if select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:  # nothing more is ever said: it was closed
            break
    if status in OVER:
        print(*client.get_job_logs(name), sep="\n")
        return
    (folder / END).touch()
    until = time.monotonic() + _END_SECONDS
    while request.backend == "local" and not (folder / FINISHED_MARK).exists() and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    _delete(client, name)


def _client(request: TrainRequest) -> Any:
    from kubeflow.trainer import KubernetesBackendConfig, LocalProcessBackendConfig, TrainerClient

    if request.backend == "local":
        return TrainerClient(backend_config=LocalProcessBackendConfig())
    return TrainerClient(backend_config=KubernetesBackendConfig(namespace=request.namespace))


def _train(client: Any, request: TrainRequest) -> str:
    from kubeflow.trainer import CustomTrainer

    local = request.backend == "local"
    words = [*request.command, str(os.getpid() if local else 0)]
    trainer = CustomTrainer(
        func=start_node,
        func_args={"command": words},
        image=request.image,
        num_nodes=request.nodes,
        resources_per_node=request.resources,
        env=dict(os.environ) if local else None,
    )
    runtime = client.get_runtime(request.runtime)
    if local:
        runtime.trainer.framework = "python"  # else it runs the torchrun of a new environment, which has none
    return str(client.train(runtime=runtime, trainer=trainer))


def _delete(client: Any, name: str) -> None:
    try:
        client.delete_job(name.strip())
    except Exception as error:  # it is gone already, as a rule, and told by many classes
        print(f"TrainJob {name} was not deleted: {error}")


if __name__ == "__main__":
    main()
