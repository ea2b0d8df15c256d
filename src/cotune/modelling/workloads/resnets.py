"""Residual networks in their form for large pictures (He et al. 2015): a 7 x 7 stem and four stages.

resnet34   plain blocks       3, 4, 6, 3    21,797,672 parameters
resnet50   bottleneck blocks  3, 4, 6, 3    25,557,032
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from cotune.workloads.models import Residual, convolution

_WIDTHS = (64, 128, 256, 512)
_WIDER = 4  # what a bottleneck puts out, as a multiple of its own width


class Bottleneck(nn.Module):
    """Narrow, convolve, widen, and a way around."""

    def __init__(self, entering: int, width: int, stride: int = 1) -> None:
        super().__init__()
        self.through = nn.Sequential(
            *convolution(entering, width, side=1, padding=0),
            nn.ReLU(inplace=True),
            *convolution(width, width, stride=stride),
            nn.ReLU(inplace=True),
            *convolution(width, _WIDER * width, side=1, padding=0),
        )
        same = stride == 1 and entering == _WIDER * width
        around = [] if same else convolution(entering, _WIDER * width, side=1, stride=stride, padding=0)
        self.around = nn.Sequential(*around)
        self.rectify = nn.ReLU(inplace=True)

    def forward(self, pictures: Tensor) -> Tensor:
        out: Tensor = self.rectify(self.through(pictures) + self.around(pictures))
        return out


def residual_network(depths: Sequence[int], *, bottleneck: bool = False, classes: int = 1000) -> nn.Module:
    """Return a residual network with so many blocks in each of its four stages."""
    block, wider = (Bottleneck, _WIDER) if bottleneck else (Residual, 1)
    layers: list[nn.Module] = [*convolution(3, 64, side=7, stride=2, padding=3), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, padding=1))
    entering = 64
    for width, depth in zip(_WIDTHS, depths, strict=True):
        for place in range(depth):
            stride = 2 if place == 0 and width > _WIDTHS[0] else 1
            layers.append(block(entering, width, stride))
            entering = wider * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(entering, classes))
