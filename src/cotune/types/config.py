"""How a job is trained: a config, made of stages."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cotune.types.values import Axes

MODEL_PARALLEL = ("tp", "pp")  # axes that share one replica of the model among so many workers
SPREADING = (*MODEL_PARALLEL, "shard", "recompute")  # axes that say how a model lies on its workers, not what it learns
ASYNCHRONOUS = "asynchronous"  # the axis by which a config asks for servers that do not wait


@dataclass(frozen=True, slots=True)
class Stage:
    """A run of layers on one kind of device, shared by its workers."""

    device: str
    workers: int
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Config:
    """How a job is trained; a data-parallel job is a pipeline of one stage."""

    batch_size: int
    stages: tuple[Stage, ...]
    servers: int = 0
    accumulate: int = 1
    axes: Axes = ()

    @classmethod
    def data_parallel(
        cls,
        batch_size: int,
        workers: int,
        device: str = "cpu",
        *,
        servers: int = 0,
        accumulate: int = 1,
        axes: Axes = (),
    ) -> Config:
        return cls(batch_size, (Stage(device, workers),), servers, accumulate, axes)

    @property
    def workers(self) -> int:
        return sum(stage.workers for stage in self.stages)

    @property
    def units(self) -> int:
        """Return the workers and servers, all of which are held and paid for."""
        return self.workers + self.servers

    @property
    def device(self) -> str:
        return self.stages[0].device

    @property
    def replicas(self) -> int:
        """Return how many copies of the model take a batch each: workers / (tp x pp) where it has such axes."""
        return self.stages[0].workers // split_over(self.axes)

    @property
    def global_batch(self) -> int:
        return self.batch_size * self.accumulate * self.replicas

    @property
    def waits(self) -> bool:
        """Return whether every step waits for all workers: servers need not, by the axis `asynchronous`."""
        return not (self.servers and str(dict(self.axes).get(ASYNCHRONOUS, False)).lower() == "true")

    def __str__(self) -> str:
        extra = [f"accumulate {self.accumulate}"] if self.accumulate > 1 else []
        extra += [f"{self.servers} servers"] if self.servers else []
        extra += [f"{name} {value}" for name, value in self.axes]
        kind = "" if self.device == "cpu" else f"{self.device} "
        workers = f"{self.workers} {kind}worker" + ("s" if self.workers > 1 else "")
        whole = f" (global batch {self.global_batch})"
        return f"batch {self.batch_size} on {workers}{whole}" + "".join(f", {word}" for word in extra)


def split_over(axes: Axes) -> int:
    """Return over how many workers one replica of the model is split, as named axes say."""
    return math.prod(value for name, value in axes if name in MODEL_PARALLEL and type(value) is int and value > 0)
