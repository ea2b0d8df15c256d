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

from collections.abc import Sequence
from dataclasses import dataclass
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
    return max(map(sum, assign_parameters(blocks, servers))) / sum(blocks)


def assign_parameters(blocks: Sequence[float], servers: int) -> list[list[float]]:
    """Return the bytes of the pieces on each server, where a model is shared out evenly in bytes and in requests."""
    if servers < 1:
        raise ValueError(f"parameters need at least one server, not {servers}")
    found: list[list[float]] = [[] for _ in range(servers)]
    average = sum(blocks) / servers
    for size in sorted(blocks, reverse=True):
        if size < _TINY * average:
            min(found, key=len).append(size)
            continue
        pieces = max(1, -int(-size // average))
        for _ in range(pieces):
            _best_fit(found, size / pieces, average).append(size / pieces)
    return found


def _best_fit(servers: list[list[float]], size: float, average: float) -> list[float]:
    fitting = [server for server in servers if sum(server) + size <= average * (1 + 1e-9)]
    return max(fitting, key=sum) if fitting else min(servers, key=sum)
