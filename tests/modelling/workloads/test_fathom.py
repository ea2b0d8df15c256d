"""Fathom's workloads: each learns, and a handful of operator types takes most of its time."""

from __future__ import annotations

import pytest
import torch

from cotune.modelling.counting.profiler import profiled
from cotune.modelling.counting.timing import Stepper, cores
from cotune.modelling.workloads.fathom import FATHOM
from cotune.modelling.workloads.named import find
from cotune.workloads.models import residual_network


def test_there_are_eight() -> None:
    assert set(FATHOM) == {"seq2seq", "memnet", "speech", "autoenc", "residual", "vgg", "alexnet", "deepq"}


@pytest.mark.parametrize("name", FATHOM)
def test_every_workload_trains(name: str) -> None:
    stepper = Stepper(find(name), 2)
    before = [weights.detach().clone() for weights in stepper.model.parameters() if weights.requires_grad]
    with cores(1):
        stepper.step()
    after = [weights for weights in stepper.model.parameters() if weights.requires_grad]
    assert all(weights.grad is not None and bool(torch.isfinite(weights.grad).all()) for weights in after)
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ["memnet", "speech", "autoenc", "deepq"])
def test_a_handful_of_operator_types_takes_most_of_the_time(name: str) -> None:
    found = profiled(find(name), 4, steps=2)
    shares = [one.share for one in found.operators]
    assert shares == sorted(shares, reverse=True)
    assert found.operators[-1].cumulative == pytest.approx(1)
    assert 1 <= found.types_for(0.9) <= len(found.operators) / 2
    assert found.types_for(0.5) <= found.types_for(0.9) <= found.types_for(0.99)


def test_residual_networks_have_their_published_sizes() -> None:
    sizes = {
        depth: sum(weights.numel() for weights in residual_network(blocks, bottleneck=depth == 50).parameters())
        for depth, blocks in ((34, (3, 4, 6, 3)), (50, (3, 4, 6, 3)))
    }
    assert sizes == {34: 21_797_672, 50: 25_557_032}
