"""The first update of an optimiser, in which its state is made: torch's own functions, without its classes.

    sgd       w <- w - lr g
    momentum  v <- mu v + g,  w <- w - lr v                        v = g at first
    adam      two states of the size of the parameters, and a count of steps

An optimiser's class imports torch's compiler to step, which takes longer than to count a model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

Optimiser = Literal["sgd", "momentum", "adam"]
STATES: dict[Optimiser, int] = {"sgd": 0, "momentum": 1, "adam": 2}


@torch.no_grad()
def first_update(weights: Iterable[Tensor], optimiser: Optimiser) -> None:
    """Update weights by their gradients, many tensors at a time, as on a GPU."""
    trained = [one for one in weights if one.requires_grad and one.grad is not None]
    gradients = [one.grad for one in trained if one.grad is not None]
    if optimiser == "adam":
        _adam(trained, gradients)
    else:
        _sgd(trained, gradients, 0.9 if optimiser == "momentum" else 0.0)


def _sgd(weights: list[Tensor], gradients: list[Tensor], momentum: float) -> None:
    none: list[Tensor | None] = [None for _ in weights]
    sgd(
        weights,
        gradients,
        none,
        has_sparse_grad=any(one.is_sparse for one in gradients),
        foreach=True,
        weight_decay=0.0,
        momentum=momentum,
        lr=1e-3,
        dampening=0.0,
        nesterov=False,
        maximize=False,
    )


def _adam(weights: list[Tensor], gradients: list[Tensor]) -> None:
    if any(one.is_sparse for one in gradients):
        raise RuntimeError("Adam does not take sparse gradients")
    states = [(torch.tensor(0.0), torch.zeros_like(one), torch.zeros_like(one)) for one in weights]
    adam(
        weights,
        gradients,
        [first for _, first, _ in states],
        [second for _, _, second in states],
        [],
        [steps for steps, _, _ in states],
        foreach=True,
        has_complex=any(one.is_complex() for one in weights),
        amsgrad=False,
        beta1=0.9,
        beta2=0.999,
        lr=1e-3,
        weight_decay=0.0,
        eps=1e-8,
        maximize=False,
    )
