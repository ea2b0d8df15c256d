"""Collectives of ranks that share a GPU, by way of the host's memory.

NCCL takes one rank a GPU, and gloo's own path for tensors on a GPU lacks what tensor groups and pipelines ask for (the
process ends by a signal). Here a tensor is copied to the host, exchanged there by gloo, and copied back where the
caller waits, on the stream that is current there: right, and slower than either.

    init_device_mesh("cuda", (2, 4), mesh_dim_names=("pp", "tp"), backend_override={"pp": NAME, "tp": NAME})
"""

# torch's stubs know neither what gloo's group does nor that a group may be written in Python.
# mypy: disable-error-code="override,assignment,attr-defined,call-arg,name-defined"

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

NAME = "host"


class HostExchange(dist.ProcessGroup):
    """A process group whose tensors may lie on any device; gloo exchanges their copies."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self._gloo)  # keeps its name

    def getBackendName(self) -> str:  # noqa: N802 - what torch calls
        return NAME

    def allreduce(self, tensors: list[Tensor], options: Any) -> Exchange:
        if self.size() == 1:
            return Exchange(None)
        staged = _sent(tensors)
        return Exchange(self._gloo.allreduce(staged, options), staged, tensors)

    def broadcast(self, tensors: list[Tensor], options: Any) -> Exchange:
        staged = _sent(tensors)
        return Exchange(self._gloo.broadcast(staged, options), staged, tensors)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], options: Any) -> Exchange:
        rooms = [_rooms(each) for each in outputs]
        work = self._gloo.allgather(rooms, _sent(inputs), options)
        return Exchange(work, list(chain(*rooms)), list(chain(*outputs)))

    def _allgather_base(self, output: Tensor, part: Tensor, options: Any) -> Exchange:
        if self.size() == 1:
            return _alone(output, part)
        rooms = _rooms([output])
        return Exchange(self._gloo._allgather_base(*rooms, *_sent([part]), options), rooms, [output])

    def _reduce_scatter_base(self, output: Tensor, whole: Tensor, options: Any) -> Exchange:
        if self.size() == 1:
            return _alone(output, whole)
        rooms = _rooms([output])
        return Exchange(self._gloo._reduce_scatter_base(*rooms, *_sent([whole]), options), rooms, [output])

    def all_gather_single_coalesced(self, outputs: list[Tensor], parts: list[Tensor], options: Any) -> Exchanges:
        return Exchanges([self._allgather_base(*pair, options) for pair in zip(outputs, parts, strict=True)])

    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], wholes: list[Tensor], options: Any) -> Exchanges:
        return Exchanges([self._reduce_scatter_base(*pair, options) for pair in zip(outputs, wholes, strict=True)])

    def allreduce_coalesced(self, tensors: list[Tensor], options: Any) -> Exchanges:
        alone = dist.AllreduceOptions()
        alone.reduceOp = options.reduceOp
        return Exchanges([self.allreduce([tensor], alone) for tensor in tensors])

    allgather_into_tensor_coalesced = all_gather_single_coalesced  # what torch called them before 2.13
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def send(self, tensors: list[Tensor], to: int, tag: int) -> Exchange:
        staged = _sent(tensors)
        return Exchange(self._gloo.send(staged, to, tag), staged)

    def recv(self, tensors: list[Tensor], source: int, tag: int) -> Exchange:
        rooms = _rooms(tensors)
        return Exchange(self._gloo.recv(rooms, source, tag), rooms, tensors)

    def barrier(self, options: Any) -> Exchange:
        return Exchange(self._gloo.barrier(options))


class Exchange(dist.Work):
    """What gloo does in the host's memory, and the tensors that its results go to."""

    def __init__(self, work: dist.Work | None, staged: Sequence[Tensor] = (), results: Sequence[Tensor] = ()) -> None:
        super().__init__()
        self._work, self._staged, self._results = work, staged, results

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait for gloo, and copy what came; once."""
        if self._work is not None:
            self._work.wait(timeout)
        for result, room in zip(self._results, self._staged, strict=False):
            result.detach().copy_(room, non_blocking=True)
        self._results = ()
        return True

    def is_completed(self) -> bool:
        return self._work is None or bool(self._work.is_completed())


class Exchanges(dist.Work):
    """Several, one after another."""

    def __init__(self, works: Sequence[Exchange]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return all(work.wait(timeout) for work in self._works)

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)


def _alone(output: Tensor, given: Tensor) -> Exchange:
    """Return the exchange of a group of one, done: nothing leaves the device."""
    output.copy_(given.view_as(output))
    return Exchange(None)


def _sent(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return copies in the host's memory, made when what computes them is done."""
    copies = _rooms(tensors)
    for copy, tensor in zip(copies, tensors, strict=True):
        copy.copy_(tensor.detach(), non_blocking=True)
    if any(tensor.is_cuda for tensor in tensors):
        torch.cuda.current_stream().synchronize()
    return copies


def _rooms(tensors: Sequence[Tensor]) -> list[Tensor]:
    pinned = torch.cuda.is_available()
    return [torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pinned) for tensor in tensors]


dist.Backend.register_backend(NAME, HostExchange, devices=["cpu", "cuda"])
