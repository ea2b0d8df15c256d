"""PALEO's layers of a torch model, and its step on a device of the table.

Convolutions, dense layers, poolings and dropout are read from a forward pass over fake tensors, with the
shapes that reach them. All else takes no time, as in the paper; what has weights among it is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from cotune.devices import Spec
from cotune.errors import UsageError
from cotune.modelling.counting.counts import Counts
from cotune.modelling.counting.workload import Workload, has_weights, module_calls
from cotune.modelling.paleo_layers import Convolution, Dense, Dropout, PaleoLayer, Pooling, Span
from cotune.modelling.prediction import Prediction, Target, from_counts, within
from cotune.modelling.predictors.paleo import Platform, Scheme, step
from cotune.modelling.roofline import Split
from cotune.types import Config

_PERCENTS = (0.62, 0.72)  # of peak, compute and communication: the authors' for TensorFlow
_REACH = 2.0  # what its shape misses on real layers, either way, without a fit for the device
_POOLS = (nn.MaxPool2d, nn.AvgPool2d)


def layers_of(workload: Workload) -> tuple[tuple[PaleoLayer, ...], tuple[str, ...]]:
    """Return PALEO's layers of a model as they are called, and the kinds with weights that it has no formula for."""
    found: list[PaleoLayer] = []
    strange: dict[str, None] = {}
    for module, entering, output in module_calls(workload, _fewest, "PALEO"):
        layer = _layer(module, entering, output) if entering is not None and isinstance(output, Tensor) else None
        if layer is not None:
            found.append(layer)
        elif has_weights(module) and "Norm" not in type(module).__name__:
            strange[type(module).__name__] = None
    return tuple(found), tuple(strange)


def _fewest(model: nn.Module) -> int:
    """Return the smallest batch: one example has no variance to normalise by."""
    return 2 if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()) else 1


def _layer(module: nn.Module, entering: Tensor, leaving: Tensor) -> PaleoLayer | None:
    first = not entering.requires_grad
    if isinstance(module, nn.Conv2d):
        spans = _spans(entering, module.kernel_size, module.stride, module.padding)
        return Convolution(*spans, module.in_channels // module.groups, module.out_channels, first)
    if isinstance(module, nn.Linear):
        rows = entering.numel() // (entering.shape[0] * module.in_features)
        return Dense(module.in_features, module.out_features, rows, first)
    if isinstance(module, _POOLS):
        return Pooling(*_spans(entering, module.kernel_size, module.stride, module.padding), entering.shape[1])
    if isinstance(module, nn.AdaptiveAvgPool2d):
        windows = [size // out for size, out in zip(entering.shape[2:], leaving.shape[2:], strict=True)]
        return Pooling(*_spans(entering, windows, windows, 0), entering.shape[1])
    return Dropout(entering.numel() // entering.shape[0]) if isinstance(module, nn.Dropout) else None


def _spans(entering: Tensor, window: Any, stride: Any, padding: Any) -> tuple[Span, Span]:
    sizes = entering.shape[2:]
    windows, strides = _pair(window), _pair(stride or window)
    pads = ("SAME", "SAME") if padding == "same" else ("VALID", "VALID") if padding == "valid" else _pair(padding)
    height, width = (Span(sizes[side], windows[side], strides[side], pads[side]) for side in (0, 1))  # type: ignore[arg-type]
    return height, width


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def from_paleo(
    workload: Workload, counts: Counts, config: Config, target: Target, *, spec: Spec | None, scheme: Scheme
) -> Prediction:
    """Return PALEO's prediction of a config, on a device of the table."""
    if spec is None:
        raise UsageError(f"PALEO reckons with published peaks, and {target.name} is not in the table of devices")
    layers, strange = layers_of(workload)
    if not layers:
        raise UsageError(f"PALEO knows convolutions, dense layers, poolings and dropout; {workload.name} has none")
    link = 8 * (target.network or spec.link)
    share = spec.worker_share
    platform = Platform(spec.flops["fp32"] * share, spec.bandwidth, spec.clock, link, *_PERCENTS)
    found = step(layers, platform, batch=config.batch_size, workers=config.workers, scheme=scheme)
    parts = Split(found.forward + found.backward + found.update, found.communication, 0.0, 0.0)
    seconds = within(parts.seconds, _REACH, "assumed")
    plain = from_counts(counts, config, target)
    missing = (f"PALEO has no formula for {', '.join(strange)}",) if strange else ()
    words = f"PALEO's formulas in single precision, {_PERCENTS[0]:.0%} of peak, {scheme.replace('_', ' ')}"
    return replace(
        plain, tier="paleo", known_from=words, step_seconds=seconds, split=parts, notes=(*plain.notes, *missing)
    )
