from __future__ import annotations

import pytest
import torch

from cotune.errors import NotFound
from cotune.workloads.models import MODELS, PictureShape, build, parameters

GREY, COLOUR = PictureShape(channels=1, side=28), PictureShape(channels=3, side=32)


@pytest.mark.parametrize(
    ("name", "shape", "published"),
    [
        ("lenet5", GREY, 61_706),
        ("lenet5", PictureShape(1, 32), 61_706),
        ("lenet5", COLOUR, 62_006),
        ("lenet5norm", GREY, 61_706 + 2 * (6 + 16)),
        ("cifar10dnn", COLOUR, 1_756_426),
        ("resnet18", COLOUR, 11_173_962),
        ("vgg19", COLOUR, 20_040_522),
    ],
)
def test_a_network_has_as_many_parameters_as_published(name: str, shape: PictureShape, published: int) -> None:
    assert parameters(build(name, shape)) == published


@pytest.mark.parametrize("shape", [GREY, PictureShape(3, 32, classes=7)])
@pytest.mark.parametrize("name", MODELS)
def test_every_network_takes_every_shape_and_learns_in_every_layer(name: str, shape: PictureShape) -> None:
    model = build(name, shape)
    answers = model(torch.randn(2, shape.channels, shape.side, shape.side))
    assert answers.shape == (2, shape.classes)
    answers.square().sum().backward()
    assert all(weights.grad is not None and weights.grad.isfinite().all() for weights in model.parameters())


def test_an_unknown_network_is_named_with_the_nearest() -> None:
    with pytest.raises(NotFound, match="did you mean 'resnet18'"):
        build("resnet-18", COLOUR)


def test_pictures_too_large_for_a_frame_are_refused() -> None:
    with pytest.raises(ValueError, match="224 pixels"):
        build("vgg19", PictureShape(3, 224))
