"""The pace of a command under cotune over the same command alone, on a GPU, with eight processes that load.

    python benchmarks/pace_gpu.py --data FOLDER [--rounds 3]

One worker on the whole GPU with a loader of eight processes, and eight workers on eight slices (CUDA MPS) with a loader
of one process each. Alone, a worker is started as a user would: `python vision.py`, and by hand with torchrun's
variables and a daemon of MPS where there are eight. The two take turns. A pace is the median of the seconds between
the ends of epochs, evaluation included, the first epoch left out. Asked: at most 1.03.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from cotune.run.engines.local import Local
from cotune.run.launch import Ended, Launch, Reported
from cotune.types import Config, Job

SCRIPT = Path(__file__).parent.absolute() / "strangers" / "vision.py"
EPOCHS, BATCH = 7, 64
PATTERN = r"epoch (?P<epoch>\S+) accuracy (?P<accuracy>\S+)"


def main() -> None:
    """Take turns, and print the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    for workers in (1, 8):
        command = [sys.executable, str(SCRIPT), "--net", "plain", "--data", str(asked.data.absolute() / "fashion.npz")]
        command += ["--batch-size", str(BATCH), "--epochs", str(EPOCHS), "--loaders", str(8 // workers)]
        slices = workers if workers > 1 else None
        engine = Local(gpu_slices=slices)
        paces: dict[str, list[float]] = {"alone": [], "cotune": []}
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(asked.rounds):
                paces["alone"].append(alone(command, workers, Path(folder)))
                paces["cotune"].append(under_cotune(engine, command, workers, Path(folder) / f"run-{turn}"))
                told = ", ".join(f"{name} {found[-1]:.3f} s" for name, found in paces.items())
                print(f"workers {workers}, turn {turn}: {told} an epoch", flush=True)
        engine.close()
        ratio = median(paces["cotune"]) / median(paces["alone"])
        print(f"workers {workers}: {ratio:.3f} (asked: at most 1.03)", flush=True)


def pace(ends: list[float]) -> float:
    """Return the median seconds of an epoch, the first left out."""
    return float(np.median(np.diff(ends)))


def alone(command: list[str], workers: int, folder: Path) -> float:
    """Return the pace of the command without cotune."""
    env = dict(os.environ)
    daemon = None
    if workers > 1:
        pipe = folder / "mps"
        pipe.mkdir(exist_ok=True)
        env |= {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(pipe)}
        daemon = subprocess.Popen(["nvidia-cuda-mps-control", "-f"], env=env, stdout=subprocess.DEVNULL)
        time.sleep(1.0)
        env |= {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(100 // workers), "OMP_NUM_THREADS": "2"}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(workers)}
    ranks = [
        subprocess.Popen(command, env=env | {"RANK": str(rank), "LOCAL_RANK": "0"}, stdout=subprocess.PIPE, text=True)
        for rank in range(workers)
    ]
    out = ranks[0].stdout
    assert out is not None
    ends = [time.monotonic() for line in out if line.startswith("epoch")]
    for rank in ranks:
        rank.wait()
    if daemon is not None:
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", env=env, text=True, check=False)
        daemon.wait()
    return pace(ends)


def under_cotune(engine: Local, command: list[str], workers: int, folder: Path) -> float:
    """Return the pace of the same command on the local engine."""
    job = Job("pace", tuple(command), folder=str(folder.parent), pattern=PATTERN, metric="accuracy")
    engine.start(Launch(folder.name, job, Config.data_parallel(BATCH, workers, "h200"), EPOCHS, folder))
    ends = []
    while not isinstance(event := engine.wait(60.0), Ended):
        if isinstance(event, Reported):
            ends.append(event.at)
    assert event.outcome == "done", event.failure
    return pace(ends)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
