"""How the ranks of a launch on machines that share a folder find each other.

Each writes its node, name and a free port as rank-N.address.json and waits for the others' files; rank 0 is the
rendezvous.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from cotune.run.environment import free_ports
from cotune.run.group_member import Peer
from cotune.run.local.messages import write_whole

_LOOK_SECONDS = 0.05
_PEER_SECONDS = 300.0  # for the slowest node to start its task


def meet(folder: Path, rank: int, workers: int, *, node: str, host: str) -> tuple[Peer, ...]:
    """Return all ranks' addresses, once they are known; nodes are counted as ranks come to them."""
    own = {"node": node, "host": host, "port": free_ports(1, set())[0]}
    write_whole(folder / f"rank-{rank}.address.json", json.dumps(own))
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
