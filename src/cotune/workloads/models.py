"""The networks of the ready-made jobs, as the literature has them.

    lenet5       61,706 parameters   LeCun et al. 1998: two convolutions, tanh, average pooling
    lenet5norm   61,750              the same with batch norm after each convolution: the smallest that has any
    cifar10dnn  1,756,426            TensorFlow's CIFAR-10 tutorial: two convolutions, local response norm
    resnet18   11,173,962            He et al. 2015, the form for 32 x 32 pictures
    vgg19      20,040,522            Simonyan and Zisserman 2014, batch norm, one linear layer at the end

The counts are for ten classes, both LeNet-5 on grey and the others on colour pictures. All
are drawn for 32 x 32 pixels: a smaller picture gets a border of zeros, and the first
layer takes as many channels as the data set has. A new network is one function in MODELS.

`residual_network` is the form for large pictures, a 7 x 7 stem and four stages (He et al. 2015):

    resnet34   plain blocks       3, 4, 6, 3    21,797,672 parameters
    resnet50   bottleneck blocks  3, 4, 6, 3    25,557,032
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from cotune.errors import NotFound, suggestion

_SIDE = 32
_WIDTHS = (64, 128, 256, 512)
_WIDER = 4  # what a bottleneck puts out, as a multiple of its own width


@dataclass(frozen=True, slots=True)
class PictureShape:
    """What a network is asked to do: pictures of channels x side x side into so many classes."""

    channels: int
    side: int
    classes: int = 10

    @property
    def border(self) -> int:
        """Return the pixels of zeros on each edge that make the picture 32 x 32."""
        border, odd = divmod(_SIDE - self.side, 2)
        if odd or border < 0:
            raise ValueError(f"pictures of {self.side} pixels a side cannot be framed to {_SIDE} x {_SIDE}")
        return border


def lenet5(shape: PictureShape) -> nn.Module:
    """Return LeNet-5."""
    return nn.Sequential(
        nn.Conv2d(shape.channels, 6, 5, padding=shape.border),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 5 * 5, 120),
        nn.Tanh(),
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, shape.classes),
    )


def lenet5norm(shape: PictureShape) -> nn.Module:
    """Return LeNet-5 with batch norm after its convolutions."""
    norms = {0: nn.BatchNorm2d(6), 3: nn.BatchNorm2d(16)}
    return nn.Sequential(
        *(part for place, layer in enumerate(lenet5(shape).children()) for part in (layer, norms.get(place)) if part)
    )


def cifar10dnn(shape: PictureShape) -> nn.Module:
    """Return the CIFAR-10 DNN of TensorFlow's tutorial, on whole pictures."""

    def norm() -> nn.Module:
        return nn.LocalResponseNorm(9, alpha=0.001, beta=0.75, k=1.0)

    return nn.Sequential(
        nn.Conv2d(shape.channels, 64, 5, padding=2 + shape.border),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        norm(),
        nn.Conv2d(64, 64, 5, padding=2),
        nn.ReLU(),
        norm(),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 384),
        nn.ReLU(),
        nn.Linear(384, 192),
        nn.ReLU(),
        nn.Linear(192, shape.classes),
    )


def resnet18(shape: PictureShape) -> nn.Module:
    """Return ResNet-18 with a 3 x 3 stem and no first pooling."""
    widths = (64, 128, 256, 512)
    blocks: list[nn.Module] = []
    entering = 64
    for width in widths:
        blocks += [Residual(entering, width, stride=1 if width == entering else 2), Residual(width, width)]
        entering = width
    return nn.Sequential(
        *convolution(shape.channels, 64, padding=1 + shape.border),
        nn.ReLU(inplace=True),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, shape.classes),
    )


def vgg19(shape: PictureShape) -> nn.Module:
    """Return VGG-19 with batch norm and a single linear layer after the convolutions."""
    layers: list[nn.Module] = []
    entering, padding = shape.channels, 1 + shape.border
    for width, depth in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(depth):
            layers += [nn.Conv2d(entering, width, 3, padding=padding), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            entering, padding = width, 1
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, shape.classes))


MODELS: dict[str, Callable[[PictureShape], nn.Module]] = {
    "lenet5": lenet5,
    "lenet5norm": lenet5norm,
    "cifar10dnn": cifar10dnn,
    "resnet18": resnet18,
    "vgg19": vgg19,
}


def build(name: str, shape: PictureShape) -> nn.Module:
    """Return the named network with fresh weights drawn from torch's generator."""
    if name not in MODELS:
        raise NotFound(f"no model named {name!r}{suggestion(name, MODELS)}; there are {', '.join(MODELS)}")
    return MODELS[name](shape)


def parameters(model: nn.Module) -> int:
    """Return how many numbers training changes."""
    return sum(weights.numel() for weights in model.parameters() if weights.requires_grad)


def convolution(entering: int, width: int, side: int = 3, stride: int = 1, padding: int = 1) -> list[nn.Module]:
    """Return a convolution without bias and the batch norm after it."""
    return [nn.Conv2d(entering, width, side, stride, padding, bias=False), nn.BatchNorm2d(width)]


class Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, entering: int, width: int, stride: int = 1) -> None:
        super().__init__()
        self.through = nn.Sequential(
            *convolution(entering, width, stride=stride), nn.ReLU(inplace=True), *convolution(width, width)
        )
        same = stride == 1 and entering == width
        around = [] if same else convolution(entering, width, side=1, stride=stride, padding=0)
        self.around = nn.Sequential(*around)
        self.rectify = nn.ReLU(inplace=True)

    def forward(self, pictures: Tensor) -> Tensor:
        out: Tensor = self.rectify(self.through(pictures) + self.around(pictures))
        return out


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
