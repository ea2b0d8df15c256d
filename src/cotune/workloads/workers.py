"""The workers of one run: who am I, which device is mine, and how do we agree.

The environment says it, as torchrun and cotune set it (RANK, LOCAL_RANK, WORLD_SIZE,
MASTER_ADDR, MASTER_PORT). Numbers are added up over gloo. Gradients go over NCCL where
every rank has a GPU of its own; ranks that share one (MPS) cannot use NCCL and take gloo.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from cotune.errors import UsageError
from cotune.torch import parallel


@dataclass(frozen=True, slots=True)
class Workers:
    """This process among its peers."""

    rank: int
    count: int
    device: torch.device
    gradients: dist.ProcessGroup | None = None

    def parallel(self, model: nn.Module, optimiser: Optimizer) -> nn.Module:
        """Return the model with its gradients averaged over the workers."""
        together = parallel(model, optimiser, process_group=self.gradients, gradient_as_bucket_view=True)
        if isinstance(together, DistributedDataParallel):
            # Batch-norm statistics do not steer training: `average` joins them before they are used, not every step.
            # Set here since the constructor's name for it differs between versions of torch.
            together.broadcast_buffers = False
        return together

    def total(self, numbers: Tensor) -> list[float]:
        """Return each number added up over the workers."""
        numbers = numbers.to("cpu", torch.float64)
        if self.count > 1:
            dist.all_reduce(numbers)
        return [float(number) for number in numbers]

    def each(self, number: float) -> list[float]:
        """Return the number of every worker, by rank."""
        numbers = torch.zeros(self.count, dtype=torch.float64)
        numbers[self.rank] = number
        return self.total(numbers)

    def most(self, *numbers: float) -> list[float]:
        """Return each number's maximum over the workers."""
        if self.count == 1:
            return list(numbers)
        together = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(together, op=dist.ReduceOp.MAX)
        return [float(number) for number in together]

    def average(self, model: nn.Module) -> None:
        """Make the running statistics of every worker's model their average."""
        buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        if self.count == 1 or not buffers:
            return
        flat = torch.cat([buffer.flatten() for buffer in buffers]).cpu()
        dist.all_reduce(flat)
        parts = torch.split(flat.div_(self.count), [buffer.numel() for buffer in buffers])
        for buffer, values in zip(buffers, parts, strict=True):
            buffer.copy_(values.view_as(buffer))

    def from_first(self, value: object) -> object:
        """Return rank 0's value on every rank."""
        if self.count == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values)
        return values[0]

    def settle(self) -> None:
        """Wait until the device has done what it was told."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        else:
            torch.cpu.synchronize()  # at once, but on an emulated node


def join(device: str = "auto") -> Workers:
    """Meet the other workers and return this one."""
    rank, count, local = (int(os.environ.get(name, default)) for name, default in _ENVIRONMENT)
    mine = _device(device, local)
    if count == 1 and os.environ.get("COTUNE_SERVERS", "0") == "0":
        return Workers(0, 1, mine)
    dist.init_process_group("gloo", rank=rank, world_size=count)
    return Workers(rank, count, mine, _gradients(mine, count))


def leave() -> None:
    """Wait for the slowest and part; a worker that leaves early tears the others' connections."""
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


class Pulse:
    """A regular moment at which all workers stop to agree, after the same step on each.

    It comes after 1, 3, 7, ... steps until that takes `seconds`, then about that often: the
    workers agree at each beat how many steps to take until the next.
    """

    def __init__(self, workers: Workers, seconds: float = 0.1) -> None:
        self._workers = workers
        self._seconds = seconds
        self._begin(1)

    def due(self) -> bool:
        """Count one step; return whether it is time."""
        self._done += 1
        self._now = time.perf_counter()
        return self._done == self._steps

    def agree(self, stop: bool) -> bool:
        """Return whether any worker wants to stop, and fix when to ask again."""
        return self.agree_on(stop)[0]

    def agree_on(self, *wishes: bool) -> tuple[bool, ...]:
        """Return for each wish whether any worker has it, and fix when to ask again."""
        rate = self._done / max(self._now - self._since, 1e-9)
        ahead = max(1, min(int(rate * self._seconds), 2 * self._done))
        *wanted, ahead_of_all = self._workers.most(*map(float, wishes), float(ahead))
        self._begin(int(ahead_of_all))
        return tuple(map(bool, wanted))

    def _begin(self, steps: int) -> None:
        self._steps, self._done = steps, 0
        self._since = self._now = time.perf_counter()


_ENVIRONMENT = (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"))


def _device(asked: str, local: int) -> torch.device:
    there = torch.cuda.is_available()
    if asked == "cuda" and not there:
        raise UsageError("device cuda: torch sees no GPU here; use cpu, or auto to take what there is")
    if asked == "cpu" or not there:
        return torch.device("cpu")
    mine = torch.device("cuda", local % torch.cuda.device_count())
    torch.cuda.set_device(mine)
    return mine


def _gradients(mine: torch.device, count: int) -> dist.ProcessGroup | None:
    """Return the group that averages gradients: NCCL's if no two ranks share a GPU, else gloo's."""
    if mine.type == "cpu":
        return None
    cards: list[str] = [""] * count
    dist.all_gather_object(cards, str(torch.cuda.get_device_properties(mine).uuid))
    return dist.new_group(backend="nccl") if len(set(cards)) == count else None
