"""Who trains on which example, so that each is seen once an epoch whatever the number of workers.

    order   one permutation of the examples per (seed, epoch), the same on every rank
    step    the next batch_size x accumulate x workers examples of it, fewer in the last step
    share   the part of a step that one rank takes, in batches of at most batch_size

Every rank takes equally many steps, and a step's examples do not depend on how they are
shared out: one worker with the same global batch walks the same path. The order also
lets a run go on in the middle of an epoch with another number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RankStep:
    """One rank's batches (indices of examples) and how many examples all ranks take together.

    A rank left without an example in the last step is idle: it takes part with a stand-in
    that must not count, since the others wait for its gradients.
    """

    batches: tuple[Tensor, ...]
    examples: int
    idle: bool = False


def order(examples: int, seed: int, epoch: int) -> Tensor:
    """Return the order in which an epoch sees its examples."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return torch.randperm(examples, generator=generator)


def steps(
    order: Tensor,
    batch_size: int,
    accumulate: int = 1,
    rank: int = 0,
    workers: int = 1,
    *,
    shares: Sequence[int] | None = None,
) -> Iterator[RankStep]:
    """Yield what a rank does in each step; `shares` of unequal workers are read anew for every step."""
    whole = batch_size * accumulate * workers
    for together in torch.split(order, whole):
        if shares is None or len(together) < whole:
            share = together.tensor_split(workers)[rank]
        else:
            share = torch.split(together, list(shares))[rank]
        idle = not len(share)
        batches = together[:1] if idle else share
        most = batch_size if shares is None else max(batch_size, -(-len(batches) // accumulate))
        yield RankStep(torch.split(batches, most), len(together), idle)
