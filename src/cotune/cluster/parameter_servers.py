"""Jobs with parameter servers, by Optimus's law; the servers hold the blocks of the model as Optimus assigns them.

    seconds of a step = t0 * M / w + t1 + t2 * w * q(p) + t3 * w + t4 * p

M is the global batch, w workers, p servers, and q(p) the part of the parameters on the fullest server:
1 / p where the blocks can be shared out evenly, and more where they cannot. Blocks are assigned by falling size, with
A = bytes / servers:

    under A / 100     to the server with the fewest requests
    up to A           best fit: where the least room (A less what is there) is left, else where most is
    larger            cut into pieces of at most A, each placed as above

Reference: Peng et al., Optimus: an efficient dynamic resource scheduler for deep learning clusters, EuroSys 2018.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from cotune.cluster.policy import COUNTED, Nodes
from cotune.cluster.work import ConstantSpeed
from cotune.types import Config

Law = tuple[float, float, float, float, float]
_TINY = 0.01


@dataclass(frozen=True)
class ParameterServerWork(ConstantSpeed):
    """So many steps of a model with blocks of some bytes."""

    total: float
    global_batch: int
    law: Law
    blocks: tuple[float, ...]
    most: int = 32  # workers and servers together
    device: str = "gpu"

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        pairs = [(workers, held - workers) for held in range(2, self.most + 1) for workers in range(1, held)]
        return tuple(self.config(workers, servers) for workers, servers in pairs)

    def config(self, workers: int, servers: int) -> Config:
        """Return how the global batch is spread over workers."""
        return Config.data_parallel(max(self.global_batch // workers, 1), workers, self.device, servers=servers)

    def step_seconds(self, config: Config) -> float:
        """Return the seconds of one step."""
        t0, t1, t2, t3, t4 = self.law
        w, p = config.workers, config.servers
        return t0 * self.global_batch / w + t1 + t2 * w * fullest(self.blocks, p) + t3 * w + t4 * p

    def rate(self, config: Config, nodes: Nodes = COUNTED, done: float = 0.0) -> float:  # noqa: ARG002  # as `Work` asks
        return 1.0 / self.step_seconds(config)

    def seconds(self, done: float, config: Config, nodes: Nodes = COUNTED) -> float:  # noqa: ARG002  # as `Work` asks
        return (self.total - done) * self.step_seconds(config)


@lru_cache(maxsize=4096)
def fullest(blocks: tuple[float, ...], servers: int) -> float:
    """Return the part of a model's bytes on the fullest of some servers."""
    named = {str(place): size for place, size in enumerate(blocks)}
    return max(server.bytes for server in assign_parameters(named, servers)) / sum(blocks)


@dataclass
class Server:
    """A parameter server: the pieces it holds, as (block, bytes)."""

    pieces: list[tuple[str, float]] = field(default_factory=list)

    @property
    def bytes(self) -> float:
        return sum(size for _, size in self.pieces)

    @property
    def requests(self) -> int:
        return len(self.pieces)


def assign_parameters(blocks: Mapping[str, float], servers: int) -> list[Server]:
    """Return the servers with the blocks of a model shared out evenly, in bytes and in requests."""
    if servers < 1:
        raise ValueError(f"parameters need at least one server, not {servers}")
    found = [Server() for _ in range(servers)]
    average = sum(blocks.values()) / servers
    for name, size in sorted(blocks.items(), key=lambda block: (-block[1], block[0])):
        if size < _TINY * average:
            min(found, key=lambda server: server.requests).pieces.append((name, size))
            continue
        pieces = max(1, -int(-size // average))
        for _ in range(pieces):
            _best_fit(found, size / pieces, average).pieces.append((name, size / pieces))
    return found


def _best_fit(servers: list[Server], size: float, average: float) -> Server:
    fitting = [server for server in servers if server.bytes + size <= average * (1 + 1e-9)]
    if fitting:
        return max(fitting, key=lambda server: server.bytes)
    return min(servers, key=lambda server: server.bytes)
