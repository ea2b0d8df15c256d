"""The quick way of tracing answers as torch's own does, or says that it cannot."""

from __future__ import annotations

from dataclasses import asdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from cotune.devices import Precision
from cotune.modelling.counting.shape_rules import NeedsMore
from cotune.modelling.counting.shapes import Shape, Shapes
from cotune.modelling.counting.trace import _Step
from cotune.modelling.counting.update import Optimiser
from cotune.modelling.counting.workload import Workload, sum_of_outputs
from cotune.modelling.workloads.named import find


def both_ways(workload: Workload, batch: int, precision: Precision = "fp32", optimiser: Optimiser = "momentum") -> None:
    with Shapes():
        quick = _Step(workload, batch, precision, optimiser).counts("traced")
    with FakeTensorMode(allow_non_fake_inputs=True):
        thorough = _Step(workload, batch, precision, optimiser).counts("traced")
    assert asdict(quick) == asdict(thorough)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("optimiser", ["momentum", "adam"])
@pytest.mark.parametrize("name", ["lenet5", "memnet", "resnet18", "vgg19"])
def test_a_network_of_common_operators_counts_as_over_torchs_fake_tensors(
    name: str, optimiser: Optimiser, precision: Precision
) -> None:
    both_ways(find(name), 3, precision, optimiser)


CONVOLUTIONS = st.fixed_dictionaries(
    {
        "kernel_size": st.integers(1, 4),
        "stride": st.integers(1, 3),
        "padding": st.integers(0, 2),
        "dilation": st.integers(1, 2),
        "groups": st.sampled_from([1, 2, 4]),
        "bias": st.booleans(),
    }
)
POOLS = [nn.MaxPool2d(2), nn.AvgPool2d(3, 1, 1), nn.AdaptiveAvgPool2d(3)]
BENDS = [nn.ReLU(), nn.Tanh(), nn.GELU(), nn.SiLU(), nn.LeakyReLU(), nn.Softplus(), nn.Hardtanh()]


@settings(max_examples=12, deadline=None)
@given(convolution=CONVOLUTIONS, pool=st.sampled_from(POOLS), bend=st.sampled_from(BENDS))
def test_any_convolution_and_pooling_counts_as_over_torchs_fake_tensors(
    convolution: dict[str, int], pool: nn.Module, bend: nn.Module
) -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Conv2d(4, 8, **convolution), nn.BatchNorm2d(8), bend, pool, nn.Dropout(), nn.Flatten())

    both_ways(Workload("drawn", build, lambda batch: (torch.randn(batch, 4, 17, 19),), sum_of_outputs), 2)


class Joining(nn.Module):
    """Two branches that are joined along a dimension, and two outputs."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim, self.left, self.right = dim, nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        joined = torch.cat([self.left(rows), self.right(rows).relu()], self.dim)
        return joined.mean(-1), torch.stack([joined, joined.exp()], self.dim).sum(1)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_joined_tensors_count_as_over_torchs_fake_tensors(dim: int) -> None:
    both_ways(Workload("joined", lambda: Joining(dim), lambda batch: (torch.randn(batch, 6),), sum_of_outputs), 4)


def test_a_number_that_is_known_may_be_asked_for_and_one_that_is_not_may_not() -> None:
    with Shapes():
        known = torch.tensor(2.0) + 1
        assert known.item() == 3.0
        with pytest.raises(NotImplementedError):
            torch.randn(()).item()


def test_views_share_their_storage_and_what_is_written_to_stays_itself() -> None:
    with Shapes():
        rows = torch.zeros(4, 6)
        view = rows.view(24)[3:]
        assert isinstance(view, Shape)
        assert view.untyped_storage()._cdata == rows.untyped_storage()._cdata
        assert rows.add_(1) is rows
        assert rows.device.type == "cpu"


@pytest.mark.parametrize(
    "odd",
    [
        lambda real: torch.zeros(3) + real,
        lambda _: torch.zeros(3, device="meta"),
        lambda _: torch.zeros(3) + torch.zeros(3, dtype=torch.float64),
        lambda _: torch.zeros(3) + torch.zeros(4),
        lambda _: torch.zeros(2, 3) @ torch.zeros(4, 2),
        lambda _: torch.zeros(5).sort(),
    ],
)  # fmt: skip
def test_what_it_is_not_sure_of_is_left_to_torch(odd: object) -> None:
    real: Tensor = torch.ones(3)
    with Shapes(), pytest.raises(NeedsMore):
        odd(real)  # type: ignore[operator]
