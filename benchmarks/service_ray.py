"""The service on a real Ray cluster of three nodes, one of which is removed while its workers train.

    python benchmarks/service_ray.py [--back]

Four jobs fill the six cores of three nodes; one node is killed once all of them run. `--back` adds a node again once
the service has noticed. Every start writes lines, as in `service_faults.py`, which judges: each job has to end, and to
be trained to its end once.
"""

from __future__ import annotations

import argparse
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
from cotune.run.ray.cluster import keep_token_in_memory
from cotune.store import open_store

HERE = Path(__file__).parent
NODES, CORES = 3, 2
WIDTHS, EPOCHS, PAUSE, PATIENCE = (2, 2, 1, 1), 60, 0.5, 540.0
FAULTS = runpy.run_path(str(HERE / "service_faults.py"))
OTHER_RANKS = """
if os.environ["RANK"] != "0":
    for epoch in range(first + 1, epochs + 1):
        time.sleep({pause})
        if cotune.report(epoch=epoch):
            break
    sys.exit()

def tell"""


def serve(folder: Path) -> subprocess.Popen[bytes]:
    """Start the service."""
    command = [sys.executable, "-m", "cotune", "serve", "--store", str(folder / "store.db")]
    with (folder / "service.log").open("ab") as log:
        return subprocess.Popen([*command, "--cluster", f"{NODES}x{CORES}"], cwd=folder, stderr=log)


def job(folder: Path, number: int, address: str) -> Path:
    """Write a job that trains for half a minute on one worker or two, and keeps checkpoints."""
    own = folder / f"job{number}"
    (own / ".cotune").mkdir(parents=True)
    script: str = FAULTS["TRAIN"].replace("\ndef tell", OTHER_RANKS)
    (own / "train.py").write_text(script.replace("{epochs}", str(EPOCHS)).replace("{pause}", str(PAUSE)))
    (own / "cotune.yaml").write_text(
        f"name: job{number}\nexamples: 100\nrun: {sys.executable} train.py {{epochs}} {{batch_size}}\n"
        f"engine: {{ray: {{address: '{address}', patience: 20}}}}\nglobal_batch: 10\nepochs: {EPOCHS}\n"
        f"search: {{workers: [{WIDTHS[number]}]}}\nbudget: {{profile: 2m}}\n"
    )
    return own


def lines(folder: Path) -> list[Any]:
    """Return what the starts of a job have written."""
    file = folder / "lines.txt"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def said(folder: Path, event: str) -> list[Any]:
    """Return what the service has logged of a kind."""
    written = (folder / "service.log").read_text().splitlines()
    return [one for one in (json.loads(line) for line in written if line.startswith("{")) if one["event"] == event]


def campaign(folder: Path, cluster: Any, *, back: bool) -> bool:
    """Have jobs served while a node is removed; print what became of each, and say whether all is well."""
    doomed = next(node for node in cluster.list_all_nodes() if not node.is_head())
    with open_store(str(folder / "store.db")) as store:
        queue = Queue(store)
        own = [job(folder, number, cluster.address) for number in range(len(WIDTHS))]
        ids = dict(zip([queue.submit(JobSnapshot.take(one)[0]) for one in own], own, strict=True))
        service, until, removed, added = serve(folder), time.monotonic() + PATIENCE, 0, 0
        try:
            while time.monotonic() < until and not all(one.is_final for one in queue.jobs()):
                time.sleep(0.5)
                running = queue.jobs(states=[State.RUNNING])
                if not removed and len(running) == len(WIDTHS) and all(lines(ids[one.id]) for one in running):
                    cluster.remove_node(doomed, allow_graceful=False)
                    removed += 1
                if back and removed and not added and said(folder, "smaller"):
                    cluster.add_node(num_cpus=CORES)
                    added += 1
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait()
        verdicts = [judged(queue, id, one) for id, one in ids.items()]
    units = [one["units"] for one in said(folder, "smaller")], [one["units"] for one in said(folder, "larger")]
    print(f"{removed} of {NODES} nodes removed; units after losses {units[0]}, after they were back {units[1]}")
    return all(verdicts) and removed > 0


def judged(queue: Queue, id: str, folder: Path) -> bool:
    """Print what became of a job; say whether it was trained to its end, once."""
    found, written = queue.get(id), lines(folder)
    ends = sum(what == "end" and whole for what, _, whole, *_ in written)
    twice = FAULTS["_twice"](written, ends)
    starts = sum(what == "start" for what, *_ in written)
    told = f"{starts} starts, {found.status.restarts} losses, {ends} whole trainings {twice or ''}"
    print(f"{found.name} on {WIDTHS[int(found.name[3:])]} workers: {found.state}, {told} ({found.reason})")
    return found.state is State.DONE and ends == 1 and not twice


def main() -> None:
    """Leave with 1 where a job was lost or trained twice."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--back", action="store_true", help="add a node again")
    back = parser.parse_args().back
    keep_token_in_memory()
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as temporary:
        os.environ |= {"RAY_TMPDIR": temporary, "RAY_worker_niceness": "0"}
        made: Any = importlib.import_module("ray.cluster_utils").Cluster
        cluster = made(initialize_head=True, head_node_args={"num_cpus": CORES})
        try:
            for _ in range(NODES - 1):
                cluster.add_node(num_cpus=CORES)
            folder = Path(tempfile.mkdtemp(prefix="service-ray-"))
            print(folder)
            well = campaign(folder, cluster, back=back)
        finally:
            cluster.shutdown()
    sys.exit(not well)


if __name__ == "__main__":
    main()
