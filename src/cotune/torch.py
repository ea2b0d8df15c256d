"""Data-parallel training in one line, whatever shares the gradients.

    model = cotune.torch.parallel(model, optimiser)

gives, as the environment that cotune sets up says,

    one worker, no servers      the model itself
    several workers             DistributedDataParallel: gradients by all-reduce
    servers, synchronous        the same, with gradients averaged by the parameter servers
    servers, asynchronous       the model itself; each step of the optimiser is merged with the others'

so one script serves them all, and without cotune it is plain DistributedDataParallel.
"""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from cotune.errors import UsageError
from cotune.worker.servers import Servers


def is_asynchronous() -> bool:
    """Say whether the config asks for servers that do not wait (its axis `asynchronous`)."""
    asked = os.environ.get("COTUNE_ASYNCHRONOUS", "false").lower() == "true"
    return asked and os.environ.get("COTUNE_SERVERS", "0") != "0"


def parallel(model: nn.Module, optimiser: Optimizer | None = None, **settings: Any) -> nn.Module:
    """Return the model as it is to be trained; settings are DistributedDataParallel's."""
    servers = Servers.connect()
    if servers is None:
        alone = not dist.is_initialized() or dist.get_world_size() == 1
        return model if alone else DistributedDataParallel(model, **settings)
    if is_asynchronous():
        if optimiser is None:
            raise UsageError("asynchronous servers merge what the optimiser does: give it to cotune.torch.parallel")
        _merging[model] = _Merging(servers, model, optimiser)
        return model
    together = DistributedDataParallel(model, **settings)
    together.register_comm_hook(servers, _averaged)
    return together


def agree(model: nn.Module) -> None:
    """Make the weights of asynchronous workers the same: those that the servers hold once all are here."""
    if model in _merging:
        _merging[model].agree()


def _averaged(servers: Servers, bucket: Any) -> torch.futures.Future[Tensor]:
    future: torch.futures.Future[Tensor] = torch.futures.Future()
    gradients = bucket.buffer()
    future.set_result(servers.average(gradients.cpu()).to(gradients.device))
    return future


_averaged.__annotations__.clear()  # DDP reads them, and knows no words that stand for types


class _Merging:
    """The weights of an asynchronous worker: after each step, what it changed is added to what all share."""

    def __init__(self, servers: Servers, model: nn.Module, optimiser: Optimizer) -> None:
        self._servers = servers
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._known = self._flat()
        if dist.get_rank() == 0:
            servers.set(self._known)
        self.agree()
        optimiser.register_step_post_hook(self._merge)

    def agree(self) -> None:
        dist.barrier()
        self._take(self._servers.add(torch.zeros_like(self._known)))

    def _merge(self, *_: Any) -> None:
        torch.cpu.synchronize()  # at once, but on an emulated node
        self._take(self._servers.add(self._flat() - self._known))

    @torch.no_grad()
    def _flat(self) -> Tensor:
        return torch.cat([parameter.detach().flatten().cpu() for parameter in self._parameters])

    @torch.no_grad()
    def _take(self, weights: Tensor) -> None:
        self._known = weights
        sizes = [parameter.numel() for parameter in self._parameters]
        for parameter, values in zip(self._parameters, torch.split(weights, sizes), strict=True):
            parameter.copy_(values.view_as(parameter))


_merging: WeakKeyDictionary[nn.Module, _Merging] = WeakKeyDictionary()
