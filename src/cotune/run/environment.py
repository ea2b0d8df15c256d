"""The variables a worker finds: who it is, where its peers are, what it is told to do.

Who and where are torchrun's names, so its scripts run unchanged; TF_CONFIG says the
same to TensorFlow. What cotune tells is in COTUNE_*.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from cotune.callbacks import injected
from cotune.jobfile.command import put_in
from cotune.run.launch import Launch
from cotune.run.lease import Lease
from cotune.run.local.network import LINK, address
from cotune.worker import kubeflow

# Large blocks are otherwise returned and mapped anew in some steps and not in others: times on cores become bimodal.
# Workers on GPUs do without: blocks in the heap are small pages, and each loader process they fork copies their table.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
SINGLE_THREADED = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
_ADDRESS = "127.0.0.1"
_PORTS = range(20000, 32000)  # below those the system gives to outgoing connections


def group_env(
    launch: Launch, numbers: Mapping[str, str], lease: Lease, temporary: Path, ports: Sequence[int]
) -> dict[str, str]:
    """Return the variables that all workers of a launch share; ports[0] is the rendezvous."""
    folder = lease.folder
    told = {f"COTUNE_{re.sub(r'[^A-Z0-9]', '_', name.upper())}": value for name, value in numbers.items()}
    told["COTUNE_METRIC"] = launch.job.metric
    if words := put_in(launch.job):
        told[injected.VARIABLE] = ",".join(words)
    if launch.target is not None:
        told |= {"COTUNE_TARGET": repr(launch.target), "COTUNE_BETTER": launch.job.better}
    if launch.resume:
        told["COTUNE_RESUME"] = "1"
    if kubeflow.URL in os.environ:  # the run tells its TrainJob itself, and a probe is not the TrainJob's training
        told[kubeflow.OFF] = "TRUE"
    return {
        "WORLD_SIZE": str(launch.config.workers),
        "LOCAL_WORLD_SIZE": str(launch.config.workers),
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": _ADDRESS,
        "MASTER_PORT": str(ports[0]),
        "TORCHELASTIC_RUN_ID": launch.id,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "GLOO_SOCKET_IFNAME": "lo",
        "TMPDIR": str(temporary),
        "COTUNE_STOP": str(folder / "stop"),
        "COTUNE_CHECKPOINT": str(folder / "checkpoint"),
        **lease.env(),
        **told,
    }


def rank_env(rank: int, folder: Path, ports: Sequence[int]) -> dict[str, str]:
    """Return the variables of one worker alone."""
    workers = [f"{_ADDRESS}:{port}" for port in ports[1:]]
    task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "COTUNE_REPORT": str(folder / f"rank-{rank}.jsonl"),
        "TF_CONFIG": json.dumps(task),
    }


def node_env(rank: int, count: int, ports: Sequence[int]) -> dict[str, str]:
    """Return the variables of a worker that is alone on an emulated node."""
    task = {"cluster": {"worker": [f"{address(node)}:{ports[1]}" for node in range(count)]}}
    return {
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(rank),
        "GROUP_WORLD_SIZE": str(count),
        "MASTER_ADDR": address(0),
        "GLOO_SOCKET_IFNAME": LINK,
        "TF_CONFIG": json.dumps({**task, "task": {"type": "worker", "index": rank}}),
    }


def free_ports(count: int, taken: set[int]) -> list[int]:
    """Return ports that nobody listens on and that are not in `taken`."""
    found: list[int] = []
    first = random.SystemRandom().choice(_PORTS)  # so that two engines seldom try the same
    for port in (*range(first, _PORTS.stop), *range(_PORTS.start, first)):
        if port not in taken and _is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"fewer than {count} free ports from {_PORTS.start} to {_PORTS.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind((_ADDRESS, port))
        except OSError:
            return False
        return True
