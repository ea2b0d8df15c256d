"""A model with what one training step needs: tensors of a batch, and a loss.

`build` makes the module, `batch` the inputs of a number of examples, `loss` the number that
backward starts from. Nothing here belongs to a data set: the numbers are drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from cotune.devices import Precision
from cotune.errors import UsageError
from cotune.modelling.counting.formulas import tensors_in

Batch = tuple[Tensor, ...]
Optimiser = Literal["sgd", "momentum", "adam"]
STATES: dict[Optimiser, int] = {"sgd": 0, "momentum": 1, "adam": 2}  # tensors of the size of the parameters


@dataclass(frozen=True, slots=True)
class Workload:
    """What is trained: a module, its batches and its loss; `notes` say what was assumed of it."""

    name: str
    build: Callable[[], nn.Module]
    batch: Callable[[int], Batch]
    loss: Callable[[nn.Module, Batch], Tensor]
    batch_size: int = 32
    notes: tuple[str, ...] = ()


def module_calls(
    workload: Workload, batch: Callable[[nn.Module], int], purpose: str
) -> list[tuple[nn.Module, Tensor | None, Any]]:
    """Return every call of a module in a forward pass over fake tensors: the first tensor that enters, what leaves."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # and a compiler with it

    calls: list[tuple[nn.Module, Tensor | None, Any]] = []

    def look(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        calls.append((module, next((value for value in inputs if isinstance(value, Tensor)), None), output))

    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            model = workload.build().train()
            for module in model.modules():
                module.register_forward_hook(look)
            workload.loss(model, workload.batch(batch(model)))
    except Exception as error:  # the model is the user's, whatever it raises
        raise UsageError(f"{purpose} needs a model that can be traced: {type(error).__name__}: {error}") from error
    return calls


def optimiser_of(kind: Optimiser, weights: Iterable[Tensor], *, foreach: bool | None = None) -> Optimizer:
    """Return an optimiser of weights; `foreach` updates many tensors at a time, as on a GPU."""
    trained = [one for one in weights if one.requires_grad]
    if kind == "adam":
        return Adam(trained, lr=1e-4, foreach=foreach)
    return SGD(trained, lr=1e-4, momentum=0.9 if kind == "momentum" else 0.0, foreach=foreach)


def has_weights(module: nn.Module) -> bool:
    """Return whether a module has its own parameters."""
    return any(True for _ in module.parameters(recurse=False))


def sum_of_outputs(model: nn.Module, batch: Batch) -> Tensor:
    """Return a loss for a model that brings none: its own `loss`, or the mean of what it puts out."""
    out = model(*batch)
    own = getattr(out, "loss", None) if not isinstance(out, Tensor) else None
    if isinstance(own, Tensor):
        return own
    means = [tensor.float().mean() for tensor in tensors_in(out) if tensor.is_floating_point() and tensor.requires_grad]
    if not means:
        raise TypeError("the model puts out no floating-point tensor that depends on its parameters")
    return torch.stack(means).sum()


def autocast(precision: Precision, device: str) -> AbstractContextManager[Any]:
    """Return what makes a forward pass compute in a precision; tf32 is a setting of fp32's products."""
    if precision in ("fp32", "tf32"):
        return nullcontext()
    return torch.autocast(device, torch.bfloat16 if precision == "bf16" else torch.float16)
