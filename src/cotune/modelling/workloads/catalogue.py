"""Every ready-made model by its short name, with random data in the shapes it is drawn for.

The eight of Fathom, the four of the training jobs, ResNet-50 and one block of a transformer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from cotune.modelling.counting.workload import Batch, Workload, sum_of_outputs
from cotune.modelling.workloads.fathom import FATHOM, pictures
from cotune.workloads.models import MODELS, PictureShape, build, residual_network

_WORDS, _WIDTH, _HEADS = 128, 512, 8


def resnet50() -> Workload:
    """Return ResNet-50 on pictures of 224 pixels."""
    return pictures("resnet50", lambda: residual_network((3, 4, 6, 3), bottleneck=True), 224)


def transformer_block() -> Workload:
    """Return one encoder block: 8 heads, width 512, 128 words of a sentence."""

    def made() -> nn.Module:
        return nn.TransformerEncoderLayer(_WIDTH, _HEADS, 4 * _WIDTH, dropout=0.1, batch_first=True)

    def batch(examples: int) -> Batch:
        return (torch.randn(examples, _WORDS, _WIDTH),)

    return Workload("transformer_block", made, batch, sum_of_outputs)


def _trained(name: str) -> Callable[[], Workload]:
    """Return the workload of a model of the training jobs: grey pictures for LeNet-5, colour for the others."""
    shape = PictureShape(channels=1 if name == "lenet5" else 3, side=32)
    return lambda: pictures(name, lambda: build(name, shape), 32, channels=shape.channels, classes=10)


SHORT: dict[str, Callable[[], Workload]] = {
    **FATHOM,
    **{name: _trained(name) for name in MODELS},
    "resnet50": resnet50,
    "transformer_block": transformer_block,
}
