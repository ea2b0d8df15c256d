"""What each operator computes: its family and, where a formula is known, its operations.

    matrix product, convolution, attention    torch's own formulas, a multiply-add as two
    attention on a CPU                        the same, 4 S T D per head forward and 2.5 times that back
    pooling                                   window x outputs
    norms and softmax                         a few operations per number: 5 forward, 8 backward
    element-wise, optimiser                   one per number written
    reductions                                one per number read
    copies, gathers, fills, random numbers    none, only bytes

A formula takes the call's tensors as they are. An operator that is in no family is unknown: its
bytes count, its operations do not, and it is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from cotune.modelling.counting.counts import Family

aten = torch.ops.aten
Formula = Callable[[tuple[Any, ...], Any], float]

_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "addmv", "mv", "dot", "addbmm", "addr", "linear"}
_POOLS = {"max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d", "avg_pool3d"}
_POOLS |= {"max_pool3d_with_indices", "_adaptive_avg_pool3d", "avg_pool1d", "max_pool1d"}
_MOVES = {
    *("clone", "copy_", "copy", "_to_copy", "cat", "stack", "index", "index_put", "index_put_"),
    *("index_select", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "embedding", "_index_put_impl_"),
    *("embedding_dense_backward", "index_add", "index_add_", "index_copy_", "slice_backward", "select_backward"),
    *("constant_pad_nd", "reflection_pad2d", "repeat", "roll", "flip", "expand_copy", "new_zeros", "zeros", "ones"),
    *("zeros_like", "ones_like", "empty", "empty_like", "full", "full_like", "fill_", "zero_", "zero", "arange"),
    *("new_empty", "new_full", "new_ones", "empty_strided", "new_empty_strided", "scalar_tensor", "rand", "randn"),
    *("rand_like", "randn_like", "randint", "bernoulli", "bernoulli_", "uniform_", "normal_", "random_", "uniform"),
    *("tril", "triu", "sort", "topk", "nonzero", "one_hot", "unfold_backward", "as_strided_scatter", "slice_scatter"),
    *("select_scatter", "resize_", "set_", "exponential_", "multinomial"),
    *("im2col", "col2im", "upsample_nearest2d", "upsample_nearest2d_backward", "eye", "contiguous", "fill"),
    *("pixel_shuffle", "nll_loss_forward", "nll_loss_backward", "_foreach_copy_", "_foreach_zero_", "masked_fill"),
    *("masked_fill_", "diagonal_backward", "linspace"),
}
_FREE = {"_unsafe_view", "detach_", "_reshape_alias", "is_same_size", "lift_fresh", "unsafe_split", "transpose_", "t_"}
_FREE |= {"unsafe_chunk", "squeeze_", "unsqueeze_", "_local_scalar_dense", "item"}
_SOFT = {
    "_softmax",
    "_safe_softmax",
    "_log_softmax",
    "_softmax_backward_data",
    "_log_softmax_backward_data",
    "logsumexp",
}
_REDUCTIONS = {"sum", "mean", "amax", "amin", "max", "min", "prod", "argmax", "argmin", "any", "all", "var", "std"}
_REDUCTIONS |= {"var_mean", "norm", "linalg_vector_norm", "cumsum", "count_nonzero", "_foreach_norm", "mse_loss"}
_ELEMENTWISE = {"native_dropout", "native_dropout_backward", "addcmul_", "addcdiv_", "lerp_", "_fused_sgd_"}
_ELEMENTWISE |= {"_fused_adam_", "_fused_adamw_", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "glu", "complex"}
_ELEMENTWISE |= {"_weight_norm_interface", "clamp_", "binary_cross_entropy", "binary_cross_entropy_backward"}
_ELEMENTWISE |= {"binary_cross_entropy_with_logits", "smooth_l1_loss", "huber_loss", "mse_loss_backward"}
_ELEMENTWISE |= {"smooth_l1_loss_backward", "huber_loss_backward", "log_sigmoid_forward", "prelu", "_prelu_kernel"}
_NORMS = ("batch_norm", "layer_norm", "group_norm", "rms_norm", "instance_norm")


def named_family(name: str) -> Family | None:
    """Return the family that an operator's bare name shows, as in a profile, or None."""
    if "scaled_dot_product" in name or "flash_attention" in name or "efficient_attention" in name:
        return "attention"
    if "convolution" in name or name.startswith(("conv", "slow_conv", "thnn_conv", "mkldnn_conv", "cudnn_conv")):
        return "convolution"
    if name in _PRODUCTS or "rnn" in name:
        return "matmul"
    if any(part in name for part in _NORMS) or name in _SOFT:
        return "normalise"
    if name.removesuffix("_backward") in _POOLS:
        return "pool"
    if name in _MOVES:
        return "move"
    if name in _REDUCTIONS:
        return "reduce"
    return "elementwise" if name in _ELEMENTWISE or name.startswith("_foreach_") else None


def family(func: Any) -> Family:
    """Return the family of an operator, by its name and torch's own tags."""
    name = _name(func)
    if (known := named_family(name)) is not None:
        return known
    if _tagged(func, "reduction"):
        return "reduce"
    small = name.endswith("_backward") or _tagged(func, "pointwise")
    return "elementwise" if small and func.namespace == "aten" else "unknown"


def flops(func: Any, kind: Family, arguments: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> float | None:
    """Return the operations of one call, or None where no formula is known."""
    name = _name(func)
    if func.overloadpacket in flop_registry:
        return float(flop_registry[func.overloadpacket](*arguments, **keywords, out_val=out))
    if name in _OWN:
        return _OWN[name](arguments, out)
    if kind == "pool":
        return _window(arguments) * _numbers([arguments[0] if name.endswith("_backward") else _first(out)])
    if kind == "normalise":
        return (8.0 if "backward" in name else 5.0) * _numbers([arguments[0]])
    if kind == "elementwise":
        written = tensors_in(out) or tensors_in(arguments[:1])
        return float(_numbers(written))
    if kind == "reduce":
        return float(_numbers(tensors_in(arguments[:1])))
    return 0.0 if kind == "move" else None


def moved(arguments: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> float:
    """Return the bytes an operator reads and writes; a tensor that is both counts twice."""
    read = tensors_in((arguments, keywords))
    return float(sum(tensor.numel() * tensor.element_size() for tensor in (*read, *tensors_in(out))))


def is_free(func: Any) -> bool:
    """Return whether an operator only makes a view of a tensor, and launches nothing."""
    return bool(func.is_view) or _name(func) in _FREE


def _name(func: Any) -> str:
    return str(func.overloadpacket.__name__)


def _tagged(func: Any, name: str) -> bool:
    tag = getattr(torch.Tag, name, None)
    return tag is not None and tag in func.tags


def tensors_in(values: Any) -> list[Tensor]:
    """Return the tensors of a call, in lists, tuples and mappings too."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, Mapping):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return [tensor for value in values for tensor in tensors_in(value)]
    return []


def _first(values: Any) -> Any:
    return next(iter(tensors_in(values)), None)


def _numbers(tensors: Sequence[Any]) -> int:
    return sum(tensor.numel() for tensor in tensors if isinstance(tensor, Tensor))


def _window(arguments: tuple[Any, ...]) -> float:
    """Return the numbers under a pooling window; an adaptive one covers the input once."""
    window = next((value for value in arguments[1:] if isinstance(value, list | tuple) and value), None)
    return float(math.prod(window)) if window and all(isinstance(side, int) for side in window) else 1.0


def _attention(arguments: tuple[Any, ...], _: Any) -> float:
    query, key, value = arguments[:3]
    *heads, rows, depth = query.shape
    columns, width = key.shape[-2], value.shape[-1]
    return float(2 * math.prod(heads) * rows * columns * (depth + width))


def _attention_backward(arguments: tuple[Any, ...], _: Any) -> float:
    return 2.5 * _attention(arguments[1:4], _)


_OWN: dict[str, Formula] = {
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "dot": lambda arguments, _: 2.0 * arguments[0].numel(),
    "mv": lambda arguments, _: 2.0 * arguments[0].numel(),
    "addmv": lambda arguments, _: 2.0 * arguments[1].numel(),
    "embedding_dense_backward": lambda arguments, _: float(arguments[0].numel()),
}
