"""Tensors that have shapes and no numbers, for networks of common operators.

    outside  a tensor of the CPU: autograd, autocast and a model's own branches treat it as one
    inside   a tensor of torch's meta device; views of it are torch's, all else follows `shape_rules`

torch's own `FakeTensorMode` does this for any program, and imports a compiler and a computer algebra for it, which
takes longer than to count most models. What is not common is left to it (`NeedsMore`): operators without a rule,
tensors from elsewhere, other devices, numbers that matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cotune.modelling.counting.shape_rules import NeedsMore, rule

aten = torch.ops.aten
_HERE = torch.device("cpu")
_LIFT = aten.lift_fresh.default
_MADE = (aten.empty.memory_format, aten._to_copy.default)


class Shape(Tensor):
    """A tensor of the CPU to whoever looks at it; `meta` is what is inside, `number` its only number, where known."""

    meta: Tensor
    number: Tensor | None

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls: type[Shape], meta: Tensor, number: Tensor | None = None) -> Shape:
        made: Shape = Tensor._make_wrapper_subclass(
            cls, meta.size(), meta.stride(), meta.storage_offset(), dtype=meta.dtype, device=_HERE
        )
        made.meta, made.number = meta, number
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NeedsMore(f"{func} on a shape, outside of its tracing")

    def untyped_storage(self) -> torch.UntypedStorage:
        """Return the storage inside, which views share."""
        return self.meta.untyped_storage()


class Shapes(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say the types of its modes
    """Make every tensor a shape, and do every operator on what is inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler only to keep it away from here

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        if func is _LIFT and type(args[0]) is Tensor:
            return _made(args[0])
        if func.namespace != "aten":
            raise NeedsMore(f"{func}, which is not one of torch's own")
        given = _shapes((args, *keywords.values()))
        numbers = sum(one.number is not None for one in given)
        if given and numbers == len(given):
            return _outside(func(*_inside(args, _number), **_inside(keywords, _number)), given, _number)
        if numbers and func._schema.is_mutable:
            raise NeedsMore("a number that is written to")
        if torch.device(keywords.get("device") or _HERE) != _HERE:
            raise NeedsMore("another device")
        entering, named = _inside(args, _meta), _inside(keywords, _meta)
        if func.is_view:
            found = func(*entering, **named)
        elif func in _MADE:
            found = func(*entering, **named | {"device": "meta"})
        else:
            found = rule(func.overloadpacket.__name__)(*entering, **named)
        return _outside(found, given, _meta)


def _shapes(values: Any) -> list[Shape]:
    """Return the shapes of a call; another tensor comes from elsewhere."""
    if isinstance(values, Shape):
        return [values]
    if isinstance(values, list | tuple):
        return [one for value in values for one in _shapes(value)]
    if isinstance(values, Tensor):
        raise NeedsMore("a tensor that was there before")
    return []


def _meta(one: Shape) -> Tensor:
    return one.meta


def _number(one: Shape) -> Tensor:
    assert one.number is not None
    return one.number


def _inside(values: Any, of: Callable[[Shape], Tensor]) -> Any:
    if isinstance(values, Shape):
        return of(values)
    if isinstance(values, list | tuple):
        return type(values)([_inside(value, of) for value in values])
    if isinstance(values, dict):
        return {name: _inside(value, of) for name, value in values.items()}
    return values


def _outside(values: Any, given: Sequence[Shape], of: Callable[[Shape], Tensor]) -> Any:
    """Return what an operator put out as shapes, and what it wrote to as the shape that was given."""
    if isinstance(values, Tensor):
        written = [one for one in given if of(one) is values]
        return written[0] if written else _made(values)
    if isinstance(values, list | tuple):
        return type(values)([_outside(value, given, of) for value in values])
    return values


def _made(tensor: Tensor) -> Shape:
    """Return a tensor as a shape, with its number if it has but one."""
    if tensor.is_meta:
        return Shape(tensor)
    return Shape(tensor.to("meta"), tensor if tensor.numel() == 1 else None)
