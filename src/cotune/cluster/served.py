"""Jobs with parameter servers, by Optimus's law; the servers hold the blocks of the model as Optimus assigns them.

    seconds of a step = t0 * M / w + t1 + t2 * w * q(p) + t3 * w + t4 * p

M is the global batch, w workers, p servers, and q(p) the part of the parameters on the fullest server:
1 / p where the blocks can be shared out evenly, and more where they cannot (`_parameters`).

Reference: Peng et al., Optimus: an efficient dynamic resource scheduler for deep learning clusters, EuroSys 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from cotune.cluster.parameters import assign_parameters
from cotune.cluster.policy import COUNTED, Nodes
from cotune.types import Config

Law = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class Served:
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

    @property
    def recipes(self) -> tuple[Config, ...]:
        return self.configs

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

    def advance(self, done: float, seconds: float, config: Config, nodes: Nodes = COUNTED) -> float:
        return done + seconds * self.rate(config, nodes)

    def seconds(self, done: float, config: Config, nodes: Nodes = COUNTED) -> float:  # noqa: ARG002  # as `Work` asks
        return (self.total - done) * self.step_seconds(config)

    def seconds_told(self, done: float, config: Config) -> float:
        return self.seconds(done, config)


@lru_cache(maxsize=4096)
def fullest(blocks: tuple[float, ...], servers: int) -> float:
    """Return the part of a model's bytes on the fullest of some servers."""
    named = {str(place): size for place, size in enumerate(blocks)}
    return max(server.bytes for server in assign_parameters(named, servers)) / sum(blocks)
