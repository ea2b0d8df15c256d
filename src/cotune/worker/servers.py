"""Parameter servers: processes that hold parts of one vector for workers to add to and read.

    worker ──piece i of its numbers──▶ server i ──piece i of the answer──▶ worker

A vector is cut into as many equal pieces as there are servers, wherever its tensors begin, so
large tensors are split and every server has the same load. A server knows two things:

    average   wait for a piece from every worker, answer all with the sum         (synchronous)
    add       add a worker's piece to what is held, answer it with the result     (asynchronous)

Optimisers stay with the workers. Synchronous workers add up gradients; asynchronous ones add
the change of the weights that their own step made and go on from what the others made of it.

Reference: Li et al., Scaling distributed machine learning with the parameter server, OSDI 2014.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

_AVERAGE, _ADD, _SET = 1, 2, 3
_HEADER, _PIECE, _ANSWER = 1, 2, 3  # tags
_PATIENCE = timedelta(days=365)  # workers may compute as long as they like


class Servers:
    """A worker's line to the servers."""

    def __init__(self, workers: int, servers: int, rank: int) -> None:
        self.workers = workers
        self._ranks = range(workers, workers + servers)
        self._group = _group(rank, workers + servers)

    @classmethod
    def connect(cls) -> Servers | None:
        """Return the line that the environment describes, or None where there are no servers."""
        servers = int(os.environ.get("COTUNE_SERVERS", "0"))
        if not servers:
            return None
        return cls(int(os.environ.get("WORLD_SIZE", "1")), servers, int(os.environ.get("RANK", "0")))

    def average(self, vector: Tensor) -> Tensor:
        """Return the mean of all workers' vectors, once every worker has given its own."""
        return self._exchange(_AVERAGE, vector / self.workers)

    def add(self, vector: Tensor) -> Tensor:
        """Add a vector to the one that is held, and return that."""
        return self._exchange(_ADD, vector)

    def set(self, vector: Tensor) -> None:
        """Let the servers hold this vector."""
        self._exchange(_SET, vector)

    def _exchange(self, what: int, vector: Tensor) -> Tensor:
        pieces = [piece.contiguous() for piece in vector.tensor_split(len(self._ranks))]
        answers = [torch.empty_like(piece) for piece in pieces]
        works = []
        for server, piece, answer in zip(self._ranks, pieces, answers, strict=True):
            works.append(self._group.send([torch.tensor([what, len(piece)])], server, _HEADER))
            if len(piece):
                works.append(self._group.send([piece], server, _PIECE))
                works.append(self._group.recv([answer], server, _ANSWER))
        for work in works:
            work.wait()
        return torch.cat(answers)


def serve() -> None:
    """Answer the workers as the server that the environment names, for as long as they ask."""
    workers, servers = int(os.environ["WORLD_SIZE"]), int(os.environ["COTUNE_SERVERS"])
    group = _group(workers + int(os.environ["COTUNE_SERVER"]), workers + servers)
    held = torch.empty(0)
    waiting: list[tuple[int, Tensor]] = []
    while True:
        header = torch.empty(2, dtype=torch.int64)
        work = group.recv_anysource([header], _HEADER)
        work.wait()
        worker, (what, length) = work._source_rank(), header.tolist()
        piece = torch.empty(length)
        if length:
            group.recv([piece], worker, _PIECE).wait()
        if what == _AVERAGE:
            waiting.append((worker, piece))
            if len(waiting) == workers:
                together = _sum([given for _, given in sorted(waiting, key=lambda entry: entry[0])])
                _answer(group, {worker: together for worker, _ in waiting})
                waiting = []
            continue
        held = piece if what == _SET else held.add_(piece)
        _answer(group, {worker: held})


def _answer(group: Any, answers: dict[int, Tensor]) -> None:
    works = [group.send([answer], worker, _ANSWER) for worker, answer in answers.items() if len(answer)]
    for work in works:
        work.wait()


def _sum(pieces: Sequence[Tensor]) -> Tensor:
    """Return the sum, always in the order of the ranks, so that equal runs give equal bits."""
    total = pieces[0].clone()
    for piece in pieces[1:]:
        total += piece
    return total


def _group(rank: int, size: int) -> Any:
    """Return a group of workers and servers, met at the store that the engine keeps, or else the first server."""
    own = os.environ.get("COTUNE_SERVERS_AT")
    address, port = own.rsplit(":", 1) if own else (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
    keeps = own is not None and os.environ.get("COTUNE_SERVER") == "0"
    store = dist.TCPStore(address, int(port), is_master=keeps, wait_for_workers=False)  # type: ignore[attr-defined]
    prefixed = dist.PrefixStore("cotune/servers", store)  # type: ignore[attr-defined]
    return dist.ProcessGroupGloo(prefixed, rank, size, _PATIENCE)


if __name__ == "__main__":
    serve()
