"""Embedding tables: held, in parts, by the units of the stage that looks them up, or by servers of their own.

    pull    distinct ids of my rows ─▶ their owners ─▶ rows of the table
    push    summed gradient of each id ─▶ its owner, which alone changes that row

Owner u of k owns the ids with id mod k = u, so a table of any size is split evenly, and what
travels is in proportion to the distinct ids of a batch. The gradient of a table is sparse: a step of
the optimiser touches the rows of the batch and no others.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import embedding


class RowOwners(Protocol):
    """Whoever holds a table's rows; `seconds` is what asking them took so far."""

    seconds: float

    def pull(self, ids: Tensor, weight: Tensor) -> tuple[Tensor, Any]:
        """Return the rows of distinct ids, and what `push` needs to know of them."""
        ...

    def push(self, pulled: Any, gradients: Tensor, weight: Tensor) -> Tensor | None:
        """Hand the gradient of every id to its owner; return that of the rows which this process owns."""
        ...


class EmbeddingTable(nn.Module):
    """Rows of numbers by id, small and random at first."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.rows = rows
        self.weight = nn.Parameter(torch.randn(rows, width).mul_(width**-0.5 / 10))
        self._owners: RowOwners | None = None

    def share(self, unit: int, units: int, group: Any) -> None:
        """Keep the rows of one unit only, and ask the others of the group for theirs."""
        self.weight = nn.Parameter(self.weight.detach()[unit::units].clone())
        self._owners = _PeerUnits(units, group)

    def leave_to(self, owners: RowOwners) -> None:
        """Keep no row here, and ask others for all of them."""
        self.weight = nn.Parameter(self.weight.detach()[:0].clone())
        self._owners = owners

    def waited(self) -> float:
        """Return the seconds of pulls and pushes since the last call."""
        seconds = 0.0
        if self._owners is not None:
            seconds, self._owners.seconds = self._owners.seconds, 0.0
        return seconds

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of ids, modulo the rows there are, side by side: (examples, ids x width)."""
        ids = ids % self.rows
        if self._owners is None:
            found = embedding(ids, self.weight, sparse=True)
        else:
            found = _Pull.apply(ids, self.weight, self._owners)  # type: ignore[no-untyped-call]
        return found.flatten(1)


class _PeerUnits:
    """Everyone's ids to everyone: numbers travel by the host's memory, as gloo carries nothing else."""

    def __init__(self, units: int, group: Any) -> None:
        self.units, self.group = units, group
        self.seconds = 0.0

    def pull(self, ids: Tensor, weight: Tensor) -> tuple[Tensor, Any]:
        by_owner = torch.argsort(ids % self.units, stable=True)
        give = torch.bincount(ids % self.units, minlength=self.units).tolist()
        get = self._counts(give)
        asked = self._exchange(ids[by_owner], give, get) // self.units
        rows = weight.new_empty((len(ids), weight.shape[1]))
        rows[by_owner] = self._exchange(weight[asked], get, give)
        return rows, (by_owner, give, get, asked)

    def push(self, pulled: Any, gradients: Tensor, weight: Tensor) -> Tensor | None:
        by_owner, give, get, asked = pulled
        mine = self._exchange(gradients[by_owner], give, get)
        return torch.sparse_coo_tensor(asked[None], mine, weight.shape, check_invariants=False)

    def _exchange(self, mine: Tensor, give: list[int], get: list[int]) -> Tensor:
        """Return what the others have for me, in the order of the units; `give` and `get` count rows."""
        began = time.perf_counter()
        hosted = mine.cpu().contiguous()
        theirs = hosted.new_empty((sum(get), *hosted.shape[1:]))
        dist.all_to_all_single(theirs, hosted, get, give, group=self.group)
        self.seconds += time.perf_counter() - began
        return theirs.to(mine.device)

    def _counts(self, give: list[int]) -> list[int]:
        """Return how many rows each of the others will give me."""
        even = [1] * self.units
        return [int(count) for count in self._exchange(torch.tensor(give), even, even)]


class _Pull(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Tensor, weight: Tensor, owners: RowOwners) -> Tensor:
        distinct, place = torch.unique(ids, return_inverse=True)
        rows, ctx.pulled = owners.pull(distinct, weight)
        ctx.owners, ctx.weight, ctx.distinct = owners, weight.detach(), len(distinct)
        ctx.save_for_backward(place)
        return rows[place]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor | None, None]:
        (place,) = ctx.saved_tensors
        gradient = gradients[0].reshape(-1, ctx.weight.shape[1])
        summed = gradient.new_zeros((ctx.distinct, ctx.weight.shape[1])).index_add_(0, place.flatten(), gradient)
        return None, ctx.owners.push(ctx.pulled, summed, ctx.weight), None
