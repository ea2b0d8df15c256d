"""One worker of a TrainJob, which torchrun has started; or all of them, where nothing has.

    pod ─torchrun▶ task, with its RANK ─▶ host ─▶ worker
    local process ─▶ task, without one ─▶ a task for each rank

In a pod the rank is torchrun's. The SDK's local backend starts one process whatever is asked, so that one starts the
others. It ends them when the folder says so or when its client is gone, and leaves a mark when nothing runs any more:
that backend ends the shell it started, and not what the shell did.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from cotune.run.group_member import GroupMember, meet
from cotune.run.host import host
from cotune.run.lease import current
from cotune.run.local.messages import Group

GROUP = "kubeflow.group.json"
END = "kubeflow.end"  # asks whoever hosts all workers to end them
FINISHED_MARK = "kubeflow.exit"
JOB = "kubeflow.job"  # the TrainJob's name
STATUS = "kubeflow.status"  # as the client was told last
OVER = ("Complete", "Failed")
LOOK_SECONDS = 0.1
_KILL_SECONDS = 5.0  # for a task to end its worker


def main() -> None:
    """Host the worker of this rank, or a task for each."""
    folder, fence, workers, cpus, client = Path(sys.argv[1]), *(int(word) for word in sys.argv[2:6])
    if current(folder) != fence:  # it waited until another start had the folder
        raise SystemExit(f"start {current(folder)} has {folder}, and this is start {fence}")
    if "RANK" not in os.environ:
        host_all(folder, workers, client)
        return
    rank, there = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if there != workers:
        raise SystemExit(f"the runtime started {there} processes, and {workers} are wanted: see `per_node`")
    for name in [name for name in os.environ if name.startswith("TORCHELASTIC_")]:
        del os.environ[name]  # the worker's group is its own, and no agent's
    address = "127.0.0.1" if client else socket.gethostbyname(socket.gethostname())
    peers = meet(folder, rank, workers, node=socket.gethostname(), host=address)
    host(Group.from_json(json.loads((folder / GROUP).read_text())), GroupMember(rank, peers, cpus))


def host_all(folder: Path, workers: int, client: int) -> None:
    """Start a task for each rank, and wait for all of them."""
    command = [sys.executable, "-P", "-m", "cotune.run.kubeflow.task", *sys.argv[1:]]
    told = {"WORLD_SIZE": str(workers)}
    tasks = [subprocess.Popen(command, env={**os.environ, **told, "RANK": str(rank)}) for rank in range(workers)]
    try:
        while any(task.poll() is None for task in tasks) and not (folder / END).exists() and _is_there(client):
            time.sleep(LOOK_SECONDS)
    finally:
        for task in tasks:
            task.terminate()
        until = time.monotonic() + _KILL_SECONDS
        while any(task.poll() is None for task in tasks) and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        for task in tasks:
            task.kill()
            task.wait()
        (folder / FINISHED_MARK).touch()


def _is_there(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


if __name__ == "__main__":
    main()
