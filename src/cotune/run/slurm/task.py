"""One task of a launch's job step: finds its peers by the shared folder, and hosts its worker.

Each task writes its node, name and a free port as rank-N.address.json and waits for the
others' files; rank 0, on the first node, is the rendezvous.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

from cotune.run.environment import free_ports
from cotune.run.group_member import GroupMember, Peer
from cotune.run.host import host
from cotune.run.lease import current
from cotune.run.local.messages import Group, write_whole
from cotune.run.slurm.batch import GROUP

_LOOK_SECONDS = 0.05
_PEER_SECONDS = 300.0  # for the slowest node to start its task


def main() -> None:
    """Host the worker of this task; its rank is Slurm's."""
    folder, fence, workers = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if current(folder) != fence:  # it waited in the queue until another start had the folder
        raise SystemExit(f"start {current(folder)} has {folder}, and this is start {fence}")
    rank = int(os.environ["SLURM_PROCID"])
    own = {"node": os.environ["SLURMD_NODENAME"], "host": _address(), "port": free_ports(1, set())[0]}
    write_whole(folder / f"rank-{rank}.address.json", json.dumps(own))
    threads = int(os.environ.get("SLURM_CPUS_PER_TASK", "1"))
    group = Group.from_json(json.loads((folder / GROUP).read_text()))
    host(group, GroupMember(rank, _peers(folder, workers), threads))


def _address() -> str:
    """Return the name by which other nodes reach this one: Slurm's for it, if that is a host's too."""
    name = os.environ["SLURMD_NODENAME"]
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return socket.gethostname()
    return name


def _peers(folder: Path, workers: int) -> tuple[Peer, ...]:
    """Return all ranks' addresses, once they are known; nodes are counted as ranks come to them."""
    wanted = [f"rank-{rank}.address.json" for rank in range(workers)]
    until = time.monotonic() + _PEER_SECONDS
    while not set(wanted) <= set(os.listdir(folder)):  # noqa: PTH208  # asks a network file system anew
        if time.monotonic() > until:
            lacking = [name for name in wanted if not (folder / name).exists()]
            raise SystemExit(f"{lacking[0]} did not come within {_PEER_SECONDS:g} s: do all nodes share {folder}?")
        time.sleep(_LOOK_SECONDS)
    told = [json.loads((folder / name).read_text()) for name in wanted]
    nodes = list(dict.fromkeys(one["node"] for one in told))
    return tuple(Peer(nodes.index(one["node"]), one["host"], one["port"]) for one in told)


if __name__ == "__main__":
    main()
