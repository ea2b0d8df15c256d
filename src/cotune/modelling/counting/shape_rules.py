"""The shapes that common operators put out, by the shapes they take in.

    element-wise   the shapes broadcast                     product   (n, k) (k, m) -> (n, m)
    reduction      the dimensions left over                 loss      a number
    convolution and pooling, per side                       (side + 2 padding - dilation (kernel - 1) - 1) // stride + 1

A rule takes the call's tensors, of torch's meta device, and returns new ones whose numbers lie in order; it raises
`NeedsMore` for what it does not cover, and whatever a model got wrong is left to be told by torch's own checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Rule = Callable[..., Any]
Shape = Sequence[int]

_SMOOTH = {"sigmoid", "tanh", "softplus", "hardtanh", "gelu", "silu", "leaky_relu"}
_BACKWARD = {f"{name}_backward" for name in (*_SMOOTH, "threshold")}
_ELEMENTWISE = {"add", "sub", "mul", "div", "pow", "relu", "neg", "exp", "sqrt", "rsqrt", *_SMOOTH, *_BACKWARD}
_WRITTEN = {"zero_", "fill_", "uniform_", "normal_", "bernoulli_", "copy_", *(f"{name}_" for name in _ELEMENTWISE)}
_FILLED = {"zeros", "ones", "rand", "randn"}
_ALIKE = {"zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "clone"}
_FOREACH = {f"_foreach_{name}_" for name in ("add", "mul", "div", "lerp", "addcmul", "addcdiv")}


class NeedsMore(NotImplementedError):
    """What is asked cannot be told here from shapes alone."""


def rule(name: str) -> Rule:
    """Return the rule of an operator by its bare name."""
    if name not in _RULES:
        raise NeedsMore(f"no rule for {name}")
    return _RULES[name]


def _need(condition: bool) -> None:
    if not condition:
        raise NeedsMore("a call that the rule of its operator does not cover")


def _made(shape: Shape, dtype: torch.dtype) -> Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device="meta")


def _in_order(*tensors: Tensor | None) -> None:
    """Insist that numbers lie in order, up to those that are repeated: what is put out then lies in order too."""
    for tensor in tensors:
        if tensor is not None and not tensor.is_contiguous():
            steps = [step for side, step in zip(tensor.shape, tensor.stride(), strict=True) if step and side > 1]
            _need(steps == sorted(steps, reverse=True))


def _same_kind(*values: Any) -> torch.dtype:
    """Return the one floating-point type of the tensors among some values, and insist that numbers do not change it."""
    kinds = {value.dtype for value in values if isinstance(value, Tensor)}
    _need(len(kinds) == 1 and not any(isinstance(value, complex) for value in values))
    (kind,) = kinds
    _need(kind.is_floating_point)
    return kind


def _broadcast(*shapes: Shape) -> tuple[int, ...]:
    longest = max(len(shape) for shape in shapes)
    padded = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    sides = [{side for side in at if side != 1} or {1} for at in zip(*padded, strict=True)]
    _need(all(len(side) == 1 for side in sides))
    return tuple(next(iter(side)) for side in sides)


def _elementwise(*values: Any, **_: float | str | bool) -> Tensor:
    tensors = [value for value in values if isinstance(value, Tensor)]
    _in_order(*tensors)
    return _made(_broadcast(*(tensor.shape for tensor in tensors)), _same_kind(*values))


def _written(first: Tensor, *values: Any, **_: Any) -> Tensor:
    for value in values:
        if isinstance(value, Tensor):
            _need(_broadcast(first.shape, value.shape) == tuple(first.shape))
        whole = not (value.is_floating_point() if isinstance(value, Tensor) else isinstance(value, float | complex))
        _need(whole or first.is_floating_point())
    return first


def _many_written(first: list[Tensor], *values: Any, **_: Any) -> None:
    for other in values:
        if isinstance(other, list) and other and isinstance(other[0], Tensor):
            _need([one.shape for one in other] == [one.shape for one in first])


def _filled(size: Shape, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _made(size, dtype or torch.get_default_dtype())


def _drawn(*bounds_and_size: Any, dtype: torch.dtype = torch.int64, **_: Any) -> Tensor:
    return _made(bounds_and_size[-1], dtype)


def _alike(tensor: Tensor, *, dtype: torch.dtype | None = None, memory_format: Any = None, **_: Any) -> Tensor:
    _need(memory_format in (None, torch.preserve_format, torch.contiguous_format))
    if memory_format != torch.contiguous_format:
        _need(tensor.is_contiguous())
    return _made(tensor.shape, dtype or tensor.dtype)


def _viewed(tensor: Tensor, size: Shape) -> Tensor:
    return tensor.view(*size)


def _joined(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    _in_order(*tensors)
    shapes = [list(tensor.shape) for tensor in tensors]
    along = [shape.pop(dim) for shape in shapes]
    _need(all(shape == shapes[0] for shape in shapes))
    place = dim % (len(shapes[0]) + 1)
    return _made((*shapes[0][:place], sum(along), *shapes[0][place:]), _same_kind(*tensors))


def _stacked(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return _joined([tensor.unsqueeze(dim) for tensor in tensors], dim)


def _product(left: Tensor, right: Tensor) -> Tensor:
    *many, rows, inner = left.shape
    _need(list(right.shape[:-1]) == [*many, inner])
    return _made((*many, rows, right.shape[-1]), _same_kind(left, right))


def _sum_and_product(bias: Tensor, left: Tensor, right: Tensor) -> Tensor:
    _same_kind(bias, left, right)
    out = _product(left, right)
    _need(_broadcast(bias.shape, out.shape) == tuple(out.shape))
    return out


def _slid(sides: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> list[int]:
    """Return how often a window fits along each side; one number stands for all sides."""
    given = (kernel, stride or kernel, padding, dilation)
    settings = [list(one) * (len(sides) if len(one) == 1 else 1) for one in given]
    found = [(s + 2 * p - d * (k - 1) - 1) // t + 1 for s, k, t, p, d in zip(sides, *settings, strict=True)]
    _need(all(side > 0 for side in found))
    return found


def _convolution(data: Tensor, weight: Tensor, bias: Tensor | None, *settings: Any) -> Tensor:
    stride, padding, dilation, transposed, _, groups = settings
    _need(not transposed and data.dim() == weight.dim() and data.is_contiguous() and weight.is_contiguous())
    out, inner, *kernel = weight.shape
    _need(data.shape[1] == inner * groups and out % groups == 0)
    _need(bias is None or list(bias.shape) == [out])
    sides = _slid(data.shape[2:], kernel, stride, padding, dilation)
    return _made((len(data), out, *sides), _same_kind(*(one for one in (data, weight, bias) if one is not None)))


def _convolution_backward(
    gradient: Tensor, data: Tensor, weight: Tensor, bias: Shape | None, *settings: Any
) -> tuple[Tensor | None, ...]:
    *_, transposed, _, _, wanted = settings
    _need(not transposed and data.is_contiguous() and weight.is_contiguous())
    _in_order(gradient)
    kind = _same_kind(gradient, data, weight)
    shapes = (data.shape, weight.shape, bias or ())
    return tuple(_made(shape, kind) if asked else None for shape, asked in zip(shapes, wanted, strict=True))


def _batch_norm(data: Tensor, *settings: Any) -> tuple[Tensor, ...]:
    *own, training, _, _ = settings
    _need(training and data.is_contiguous() and data.is_floating_point())
    channels = data.shape[1:2]
    _need(all(one is None or one.shape == channels for one in own))
    return _made(data.shape, data.dtype), _made(channels, data.dtype), _made(channels, data.dtype)


def _batch_norm_backward(gradient: Tensor, data: Tensor, weight: Tensor | None, *settings: Any) -> tuple[Tensor, ...]:
    *_, wanted = settings
    if weight is None or not all(wanted) or not data.is_contiguous():
        raise NeedsMore("a norm that is not like others")
    _in_order(gradient)
    return _made(data.shape, data.dtype), _made(weight.shape, weight.dtype), _made(weight.shape, weight.dtype)


def _pooled(data: Tensor, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Tensor:
    _need(data.is_contiguous() and data.dim() == 4)
    return _made((*data.shape[:2], *_slid(data.shape[2:], kernel, stride, padding, dilation)), _same_kind(data))


def _given(settings: tuple[Any, ...], *usual: Any) -> tuple[Any, ...]:
    """Return a call's settings, and the usual ones where it says none."""
    return settings + usual[len(settings) :]


def _max_pool(data: Tensor, kernel: Shape, *settings: Any) -> tuple[Tensor, Tensor]:
    stride, padding, dilation, ceil = _given(settings, (), (0,), (1,), False)
    _need(not ceil)
    out = _pooled(data, kernel, stride, padding, dilation)
    return out, _made(out.shape, torch.int64)


def _average_pool(data: Tensor, kernel: Shape, *settings: Any) -> Tensor:
    stride, padding, ceil, *_ = _given(settings, (), (0,), False)
    _need(not ceil)
    return _pooled(data, kernel, stride, padding, (1,))


def _adaptive_pool(data: Tensor, size: Shape) -> Tensor:
    _need(data.is_contiguous() and data.dim() == 4)
    return _made((*data.shape[:2], *size), _same_kind(data))


def _like_second(gradient: Tensor, data: Tensor, *_: Any) -> Tensor:
    _need(data.is_contiguous())
    _in_order(gradient)
    return _made(data.shape, _same_kind(gradient, data))


def _reduced(data: Tensor, dims: Shape | None = None, keep: bool = False, *, dtype: Any = None) -> Tensor:
    _need(dtype is None)
    _in_order(data)
    gone = {dim % data.dim() for dim in dims} if dims else set(range(data.dim()))
    sides = [(1 if place in gone else side) for place, side in enumerate(data.shape) if keep or place not in gone]
    return _made(sides, _same_kind(data))


def _softmax(data: Tensor, _: int, half_to_float: bool) -> Tensor:
    _need(not half_to_float and data.is_contiguous())
    return _made(data.shape, _same_kind(data))


def _softmax_backward(gradient: Tensor, out: Tensor, _: int, dtype: torch.dtype) -> Tensor:
    _need(out.is_contiguous())
    _in_order(gradient)
    return _made(out.shape, dtype)


def _nll_loss(data: Tensor, target: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    _, reduction, _ = settings
    _need(reduction != 0 and data.dim() == 2 and data.shape[:1] == target.shape)
    return _made((), data.dtype), _made((), data.dtype)


def _nll_loss_backward(_: Tensor, data: Tensor, *__: Any) -> Tensor:
    _need(data.is_contiguous())
    return _made(data.shape, data.dtype)


def _embedding(weight: Tensor, rows: Tensor, *_: Any) -> Tensor:
    return _made((*rows.shape, weight.shape[1]), weight.dtype)


def _embedding_backward(gradient: Tensor, _: Tensor, number: int, *__: Any) -> Tensor:
    return _made((number, gradient.shape[-1]), gradient.dtype)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(_WRITTEN, _written),
    **dict.fromkeys(_FOREACH, _many_written),
    **dict.fromkeys(_FILLED, _filled),
    **dict.fromkeys(_ALIKE, _alike),
    "_foreach_sqrt": lambda tensors: [_alike(tensor) for tensor in tensors],
    "randint": _drawn,
    "_unsafe_view": _viewed,
    "cat": _joined,
    "stack": _stacked,
    "mm": _product,
    "bmm": _product,
    "addmm": _sum_and_product,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "native_batch_norm": _batch_norm,
    "native_batch_norm_backward": _batch_norm_backward,
    "max_pool2d_with_indices": _max_pool,
    "max_pool2d_with_indices_backward": _like_second,
    "avg_pool2d": _average_pool,
    "avg_pool2d_backward": _like_second,
    "_adaptive_avg_pool2d": _adaptive_pool,
    "_adaptive_avg_pool2d_backward": _like_second,
    "sum": _reduced,
    "mean": _reduced,
    "_softmax": _softmax,
    "_log_softmax": _softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _softmax_backward,
    "nll_loss_forward": _nll_loss,
    "nll_loss_backward": _nll_loss_backward,
    "embedding": _embedding,
    "embedding_dense_backward": _embedding_backward,
}
