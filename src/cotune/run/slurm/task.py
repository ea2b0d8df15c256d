"""One task of a launch's job step: meets its peers in the shared folder, and hosts its worker."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

from cotune.run.group_member import GroupMember, meet
from cotune.run.host import host
from cotune.run.lease import current
from cotune.run.local.messages import Group
from cotune.run.slurm.batch import GROUP


def main() -> None:
    """Host the worker of this task; its rank is Slurm's."""
    folder, fence, workers = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if current(folder) != fence:  # it waited in the queue until another start had the folder
        raise SystemExit(f"start {current(folder)} has {folder}, and this is start {fence}")
    rank = int(os.environ["SLURM_PROCID"])
    peers = meet(folder, rank, workers, node=os.environ["SLURMD_NODENAME"], host=_address())
    threads = int(os.environ.get("SLURM_CPUS_PER_TASK", "1"))
    host(Group.from_json(json.loads((folder / GROUP).read_text())), GroupMember(rank, peers, threads))


def _address() -> str:
    """Return the name by which other nodes reach this one: Slurm's for it, if that is a host's too."""
    name = os.environ["SLURMD_NODENAME"]
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return socket.gethostname()
    return name


if __name__ == "__main__":
    main()
