"""Slurm's own programs: sbatch to submit, squeue to notice death, scancel for what we submitted, sinfo for its nodes.

squeue is asked seldom and in the background: how a launch fares stands in its folder, and
a busy controller must not hold up who waits for it. No accounting database is needed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from cotune.errors import EngineError, NotFound
from cotune.run.slurm.batch import JOB, SCRIPT

_ASK_SECONDS = 60.0
_PAUSE = 0.2
FINISHED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
    *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
)
_GPUS = re.compile(r"gpu(?::([\w.-]+))?:(\d+)")
GONE = "GONE"  # so long over that the controller has forgotten it


def require_slurm() -> None:
    """Say what is missing on a machine from which nothing can be submitted."""
    for name in ("sbatch", "squeue", "scancel"):
        if shutil.which(name) is None:
            raise NotFound(f"the slurm engine needs {name}, which is not on the PATH: run cotune on a login node")


def submit(script: Path) -> str:
    """Submit a batch script, and return the job's number."""
    told = _run(["sbatch", "--parsable", str(script)])
    return told.split(";")[0].strip()  # the name of a cluster may follow


def cancel(jobs: Collection[str]) -> None:
    """Cancel jobs that we submitted; what is already over stays so."""
    if jobs:
        subprocess.run(["scancel", *jobs], capture_output=True, check=False, timeout=_ASK_SECONDS)


def end_earlier(folder: Path, seconds: float = _ASK_SECONDS) -> None:
    """Cancel the job of an earlier start in a folder, whose cotune is gone, and return when it is over."""
    noted = folder / JOB
    number = noted.read_text().strip() if noted.exists() else ""
    until = time.monotonic() + seconds
    while number and _runs(number, folder / SCRIPT):
        cancel([number])
        if time.monotonic() > until:
            raise EngineError(f"Slurm job {number} of an earlier start still runs in {folder}: scancel {number}")
        time.sleep(_PAUSE)


def _runs(number: str, script: Path) -> bool:
    """Return whether a job is not over, and is the one of this script: numbers are given out again some day."""
    command = ["squeue", "--noheader", "--format=%T %o", f"--jobs={number}"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ASK_SECONDS)
    state, _, ran = told.stdout.strip().partition(" ")
    return bool(state) and state not in FINISHED and ran.strip() == str(script)


class Asking:
    """A question to the controller that runs in the background: in which state is each of these jobs?"""

    def __init__(self, jobs: Collection[str]) -> None:
        self._jobs = tuple(jobs)
        command = ["squeue", "--noheader", "--states=all", "--format=%i %T", f"--jobs={','.join(self._jobs)}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def answer(self, timeout: float = 0.0) -> dict[str, str] | None:
        """Return job -> state once it is known; nothing is known of a controller that does not answer."""
        try:
            self._process.wait(timeout)  # a line for each of our own jobs fits in the pipe
        except subprocess.TimeoutExpired:
            return None
        told, complaint = self._process.communicate()
        if self._process.returncode != 0 and "Invalid job id" not in complaint:
            return {}
        words = [line.split() for line in told.splitlines()]
        # A heterogeneous job is listed by its components, 12+0 and 12+1, of which the first is the job itself.
        states = {each[0].removesuffix("+0"): each[1] for each in words if len(each) == 2}
        return {job: states.get(job, GONE) for job in self._jobs}

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ASK_SECONDS)
    except subprocess.TimeoutExpired:
        raise EngineError(f"{command[0]} did not answer within {_ASK_SECONDS:g} s") from None
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise EngineError(f"Slurm did not take the job: {said.removeprefix('sbatch: error: ')}")
    return done.stdout


def described_nodes(partition: str | None) -> str:
    """Return what sinfo says of the nodes: cores and generic resources, one line each; nothing without sinfo."""
    if shutil.which("sinfo") is None:
        return ""
    where = [f"--partition={partition}"] if partition else []
    command = ["sinfo", "--noheader", "--Node", "--format=%c|%G", *where]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ASK_SECONDS)
    return done.stdout if done.returncode == 0 else ""


def cores_of_a_gpu(described: str, device: str) -> int:
    """Return the cores of a node over its GPUs of that type, the least of all such nodes; 1 if none is known.

    `64|gpu:a100:8(S:0-1)`, 64 cores and 8 GPUs, is 8 cores for each worker.
    """
    shares = [
        int(cores) // int(count)
        for line in described.splitlines()
        for cores, _, listed in [line.partition("|")]
        for kind, count in _GPUS.findall(listed)
        if device in ("gpu", kind) and cores.strip().isdigit() and int(count) > 0
    ]
    return max(1, min(shares, default=1))
