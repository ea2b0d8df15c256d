"""The service on a real Slurm of this machine, killed in the middle.

    python benchmarks/service_slurm.py

Three jobs train for some fifteen seconds each as jobs of Slurm; the service is killed once two of them run, and again
where they still do. Every start writes lines, as in `service_faults.py`, which judges: each job has to end, and to be
trained to its end once.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import State
from cotune.store import open_store

HERE = Path(__file__).parent
EPOCHS, JOBS, PATIENCE = 30, 3, 900.0
FAULTS = runpy.run_path(str(HERE / "service_faults.py"))
KILLS = 2


def serve(folder: Path) -> subprocess.Popen[bytes]:
    """Start the service."""
    command = [sys.executable, "-m", "cotune", "serve", "--store", str(folder / "store.db"), "--slots", str(JOBS)]
    with (folder / "service.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, stderr=log)


def job(folder: Path, number: int) -> Path:
    """Write a job that trains for some fifteen seconds and keeps checkpoints."""
    own = folder / f"job{number}"
    (own / ".cotune").mkdir(parents=True)
    (own / "train.py").write_text(FAULTS["TRAIN"].replace("{epochs}", str(EPOCHS)).replace("{pause}", "0.5"))
    (own / "cotune.yaml").write_text(
        f"name: job{number}\nexamples: 100\nrun: {sys.executable} train.py {{epochs}} {{batch_size}}\nengine: slurm\n"
        f"global_batch: 10\nepochs: {EPOCHS}\nsearch: {{workers: [1]}}\nbudget: {{profile: 5m}}\n"
    )
    return own


def lines(folder: Path) -> list[Any]:
    """Return what the starts of a job have written."""
    file = folder / "lines.txt"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def campaign(folder: Path) -> bool:
    """Have jobs served by services that are killed; print what became of each, and say whether all is well."""
    with open_store(str(folder / "store.db")) as store:
        queue = Queue(store)
        own = [job(folder, number) for number in range(JOBS)]
        ids = dict(zip([queue.submit(JobSnapshot.take(one)[0]) for one in own], own, strict=True))
        service, until, told, killed = serve(folder), time.monotonic() + PATIENCE, 8, 0
        try:
            while time.monotonic() < until and not all(one.is_final for one in queue.jobs()):
                time.sleep(0.5)
                running = queue.jobs(states=[State.RUNNING])
                if killed < KILLS and len(running) > 1 and all(len(lines(ids[one.id])) > told for one in running):
                    service.kill()
                    service.wait()
                    service, told, killed = serve(folder), told + 12, killed + 1
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait()
        verdicts = [judged(queue, id, one) for id, one in ids.items()]
        print(f"the service was killed {killed} times")
        return all(verdicts) and killed > 0


def judged(queue: Queue, id: str, folder: Path) -> bool:
    """Print what became of a job; say whether it was trained to its end, once."""
    found, written = queue.get(id), lines(folder)
    ends = sum(what == "end" and whole for what, _, whole, *_ in written)
    twice = FAULTS["_twice"](written, ends)
    starts = sum(what == "start" for what, *_ in written)
    print(f"{found.name}: {found.state}, {starts} starts, {ends} whole trainings {twice or ''} ({found.reason})")
    return found.state is State.DONE and ends == 1 and not twice


def main() -> None:
    """Leave with 1 where a job was lost or trained twice."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    daemons: Any = importlib.import_module("slurm_daemons").daemons
    with daemons() as env:
        os.environ.update(env)
        well = campaign(Path(tempfile.mkdtemp(prefix="service-slurm-")))
    sys.exit(not well)


if __name__ == "__main__":
    main()
