"""A Slurm on this machine, with ports and files of its own, for as long as it is needed.

It has one node of four cores, or several nodes that this machine plays: each with a slurmd and a feature of its own.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cotune.run.environment import free_ports

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch")
_PATH = f"{os.environ['PATH']}:/usr/sbin"
_UP_SECONDS = 90.0


def missing() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]


def settings(folder: Path, ports: list[int], features: Sequence[str]) -> str:
    host, user = socket.gethostname().split(".")[0], getpass.getuser()
    nodes = f"NodeName={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 Gres=gpu:t4:2 State=UNKNOWN"
    if features:
        each = zip(features, ports[1:], strict=True)
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 Feature={name} State=UNKNOWN"
            for name, port in each
        )
    return f"""
        ClusterName=test
        SlurmctldHost={host}(127.0.0.1)
        SlurmctldPort={ports[0]}
        SlurmUser={user}
        SlurmdUser={user}
        AuthInfo=socket={folder}/munge.socket
        StateSaveLocation={folder}/state
        SlurmdSpoolDir={folder}/spool-%n
        SlurmctldPidFile={folder}/slurmctld.pid
        SlurmdPidFile={folder}/slurmd-%n.pid
        SlurmctldLogFile={folder}/slurmctld.log
        SlurmdLogFile={folder}/slurmd-%n.log
        SlurmdParameters=config_overrides
        ProctrackType=proctrack/linuxproc
        TaskPlugin=task/none
        SelectType=select/cons_tres
        SelectTypeParameters=CR_Core
        MpiDefault=none
        ReturnToService=2
        GresTypes=gpu
        SchedulerParameters=bf_interval=1,sched_interval=1
        {nodes}
        PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
    """


@contextmanager
def daemons(*features: str) -> Iterator[dict[str, str]]:
    """Run munged, slurmctld and a slurmd for each node; yield the variables by which Slurm's programs find them."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    nodes = features or (socket.gethostname().split(".")[0],)
    for name in ("state", *(f"spool-{node}" for node in nodes)):
        (folder / name).mkdir()
    folder.chmod(0o755)
    ports = free_ports(1 + len(nodes), set())
    (folder / "slurm.conf").write_text(settings(folder, ports, features).replace(" " * 8, ""))
    gpus = () if features else ("null", "zero")
    (folder / "gres.conf").write_text("".join(f"Name=gpu Type=t4 File=/dev/{name}\n" for name in gpus))
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))
    env = {**os.environ, "PATH": _PATH, "SLURM_CONF": str(folder / "slurm.conf")}
    munge = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    commands = (
        ["munged", "-F", f"--socket={folder}/munge.socket", *munge],
        ["slurmctld", "-D", "-c"],
        *(["slurmd", "-D", "-c", "-N", node] for node in nodes),
    )
    started = []
    try:
        with (folder / "output").open("ab") as output:
            for command in commands:
                started.append(subprocess.Popen(command, env=env, stdout=output, stderr=output))
                _until((folder / "munge.socket").exists, folder)
        _until(lambda: _nodes(env) == ["idle"] * len(nodes), folder)
        yield {name: env[name] for name in ("PATH", "SLURM_CONF")}
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _nodes(env: dict[str, str]) -> list[str]:
    shown = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], env=env, capture_output=True, text=True, check=False)
    return shown.stdout.split()


def _until(true: Callable[[], bool], folder: Path) -> None:
    end = time.monotonic() + _UP_SECONDS
    while not true():
        assert time.monotonic() < end, "\n".join(file.read_text() for file in folder.glob("*.log"))
        time.sleep(0.05)
