"""A worker as a member of a group that spans machines, as torchrun's variables tell it.

    rank, local rank, node     from the node of every rank
    MASTER_ADDR, MASTER_PORT   the address of rank 0
    COTUNE_SERVERS_AT          the address of the first parameter server, where there are any
    GLOO_SOCKET_IFNAME         the interface by which this node reaches another one

gloo would otherwise take the address of the host's name, which often is a loopback.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotune.run.environment import free_ports
from cotune.run.local.messages import write_whole

_GET_ADDRESS = 0x8915  # SIOCGIFADDR
_ANY_PORT = 9
FOLDER_SECONDS = 0.05  # between two looks at a folder in which others write
_PEER_SECONDS = 300.0  # for the slowest node to start its task


@dataclass(frozen=True, slots=True)
class Peer:
    """One rank as the others reach it: its node, its address there, and a port that was free."""

    node: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One process among its peers, the workers, which are listed by rank; servers count on after them."""

    rank: int
    peers: tuple[Peer, ...]
    threads: int
    servers: tuple[Peer, ...] = ()

    @property
    def here(self) -> Peer:
        return (*self.peers, *self.servers)[self.rank]

    @property
    def server(self) -> int | None:
        """Which of the servers this is, or None for a worker."""
        return self.rank - len(self.peers) if self.rank >= len(self.peers) else None

    @property
    def local_rank(self) -> int:
        return sum(peer.node == self.here.node for peer in self.peers[: self.rank])

    @property
    def local_workers(self) -> int:
        return sum(peer.node == self.here.node for peer in self.peers)

    @property
    def sharing(self) -> int:
        """How many processes of the group share this machine, servers included."""
        return sum(peer.node == self.here.node for peer in (*self.peers, *self.servers))

    def env(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return the worker's variables; what is already in `own` of the interface and the threads stays."""
        master = self.peers[0]
        workers = [f"{peer.host}:{peer.port}" for peer in self.peers]
        task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": self.rank}}
        interface = None if "GLOO_SOCKET_IFNAME" in own else self._interface()
        return {
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.local_rank),
            "WORLD_SIZE": str(len(self.peers)),
            "LOCAL_WORLD_SIZE": str(self.local_workers),
            "GROUP_RANK": str(self.here.node),
            "GROUP_WORLD_SIZE": str(len({peer.node for peer in self.peers})),
            "MASTER_ADDR": master.host,
            "MASTER_PORT": str(master.port),
            "TF_CONFIG": json.dumps(task),
            "OMP_NUM_THREADS": own.get("OMP_NUM_THREADS", str(self.threads)),
            **({"GLOO_SOCKET_IFNAME": interface} if interface else {}),
            **({"COTUNE_SERVERS_AT": f"{self.servers[0].host}:{self.servers[0].port}"} if self.servers else {}),
            **({} if self.server is None else {"COTUNE_SERVER": str(self.server)}),
        }

    def _interface(self) -> str | None:
        elsewhere = [peer.host for peer in (*self.peers, *self.servers) if peer.node != self.here.node]
        return interface_towards(elsewhere[0]) if elsewhere else "lo"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> GroupMember:
        peers, servers = (tuple(Peer(**peer) for peer in value[kind]) for kind in ("peers", "servers"))
        return cls(value["rank"], peers, value["threads"], servers)


def interface_towards(host: str) -> str | None:
    """Return the network interface by which this machine sends to a host, if it can be told."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect((host, _ANY_PORT))  # sends nothing: it only asks for the route
        except OSError:
            return None
        own = trial.getsockname()[0]
        return next((name for _, name in socket.if_nameindex() if _address(trial, name) == own), None)


def _address(any_socket: socket.socket, interface: str) -> str | None:
    request = struct.pack("256s", interface.encode()[:15])
    try:
        return socket.inet_ntoa(fcntl.ioctl(any_socket.fileno(), _GET_ADDRESS, request)[20:24])
    except OSError:  # an interface without an address
        return None


def meet(folder: Path, rank: int, workers: int, *, node: str, host: str) -> tuple[Peer, ...]:
    """Return all ranks' addresses, once they are known; nodes are counted as ranks come to them.

    Machines that share a folder find each other in it: each rank writes its node, name and a free port as
    rank-N.address.json and waits for the others' files; rank 0 is the rendezvous.
    """
    own = {"node": node, "host": host, "port": free_ports(1, set())[0]}
    write_whole(folder / f"rank-{rank}.address.json", json.dumps(own))
    wanted = [f"rank-{rank}.address.json" for rank in range(workers)]
    until = time.monotonic() + _PEER_SECONDS
    while not set(wanted) <= set(os.listdir(folder)):  # noqa: PTH208  # asks a network file system anew
        if time.monotonic() > until:
            lacking = [name for name in wanted if not (folder / name).exists()]
            raise SystemExit(f"{lacking[0]} did not come within {_PEER_SECONDS:g} s: do all nodes share {folder}?")
        time.sleep(FOLDER_SECONDS)
    told = [json.loads((folder / name).read_text()) for name in wanted]
    nodes = list(dict.fromkeys(one["node"] for one in told))
    return tuple(Peer(nodes.index(one["node"]), one["host"], one["port"]) for one in told)
