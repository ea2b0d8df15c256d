"""Sums of layers: a network is read as the rows of timed layers, and its step is the sum of what they take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cotune.errors import CotuneError, NotFound
from cotune.modelling.counting.workload import Workload, sum_of_outputs
from cotune.modelling.layer_rows import Layers
from cotune.modelling.layer_sums import read_network, summed_seconds
from cotune.modelling.predictors.layerwise import Layerwise
from cotune.modelling.workloads.named import find
from cotune.predict import TooFewSamples
from cotune.types import Floats
from modelling.layer_worlds import layers
from modelling.test_model_verbs import cotune, project

__all__ = ["project"]


@dataclass(frozen=True)
class ByWidth:
    """A model of layers that takes a millisecond for each, and one more for each input channel or feature."""

    def fit_layers(self, layers: Layers) -> ByWidth:  # noqa: ARG002  # the protocol's
        return self

    def predict(self, layers: Layers) -> Floats:
        wide = layers.shape.get("dim_in", layers.shape.get("c_in", np.zeros(len(layers))))
        return np.asarray(1.0 + wide)


def test_lenet5_is_read_as_its_seven_layers_with_the_shapes_that_reach_them() -> None:
    found = read_network(find("lenet5"), 8, "adam")
    assert [(row["c_in"], row["c_out"], row["kernel"], row["size_in"]) for row in found.rows["conv"]] == [
        ("1", "6", "5", "32"),
        ("6", "16", "5", "14"),
    ]
    assert [(row["dim_in"], row["dim_out"]) for row in found.rows["dense"]] == [
        ("400", "120"),
        ("120", "84"),
        ("84", "10"),
    ]
    assert len(found.rows["pool"]) == 2
    assert {row["optimizer"] for rows in found.rows.values() for row in rows} == {"adam"}
    assert {row["batch"] for rows in found.rows.values() for row in rows} == {"8"}
    assert not found.strange
    assert "BatchNorm2d" in read_network(find("resnet18"), 2, "sgd").strange


def test_a_step_is_the_sum_of_its_layers() -> None:
    found = read_network(find("lenet5"), 8, "sgd")
    timed = {kind: layers(kind, 50) for kind in ("conv", "dense", "pool")}
    whole = summed_seconds(found, timed, "fast", ByWidth())
    assert whole == pytest.approx((7 + 1 + 6 + 400 + 120 + 84) / 1e3)


def test_what_timing_adds_to_a_layer_is_paid_once_a_step() -> None:
    """An empty forward takes 1 ms and an empty training step 3 + 4 ms: seven layers share one of these four."""
    found = read_network(find("lenet5"), 8, "sgd")
    timed = {}
    for kind in ("conv", "dense", "pool"):
        table = layers(kind, 50)
        training = table.shape["optimizer"] > 0
        assert set(training.tolist()) == {False, True}
        timed[kind] = replace(table, ms=np.where(training, 7.0, 1.0))
    assert summed_seconds(found, timed, "fast", Seven(), once=True) == pytest.approx((7 * (7 - 4) + 4) / 1e3)
    assert summed_seconds(found, timed, "fast", Seven()) == pytest.approx(7 * 7 / 1e3)
    forward_only = {kind: table.take(table.shape["optimizer"] == 0) for kind, table in timed.items()}
    assert summed_seconds(found, forward_only, "fast", Seven(), once=True) == pytest.approx(7 * 7 / 1e3)


class Seven:
    """A model of layers that takes seven milliseconds for each."""

    def fit_layers(self, layers: Layers) -> Seven:  # noqa: ARG002  # the protocol's
        return self

    def predict(self, layers: Layers) -> Floats:
        return np.full(len(layers), 7.0)


def test_a_kind_that_nobody_timed_and_too_few_layers_are_told() -> None:
    found = read_network(find("lenet5"), 8, "sgd")
    with pytest.raises(NotFound, match="no timed pool layers of fast, and the network has 2"):
        summed_seconds(found, {kind: layers(kind, 50) for kind in ("conv", "dense")}, "fast", ByWidth())
    few = {kind: layers(kind, 6).take(np.arange(3)) for kind in ("conv", "dense", "pool")}
    with pytest.raises(TooFewSamples, match="3 timed conv layers of a device: at least 20 are needed"):
        summed_seconds(found, few, str(few["conv"].device[0]), Layerwise())


def test_a_network_is_predicted_from_layers_timed_here(project: Path) -> None:
    cotune("model", "layers", "20", "--kinds", "dense", "--into", "timed")
    (project / "nets.py").write_text(NETS)
    asked = ("model", "predict", "nets.py:Two", "--input", "32", "--device", "cpu", "--layers", "timed", "-b", "8")
    (row,) = cotune(*asked, "--tier", "layerwise", "--examples", "800")["rows"]
    assert row["tier"] == "layerwise"
    assert "the sum of its 2 layers, learnt from 20 dense layers timed on cpu-" in row["known_from"]
    assert "as few as 20 layers" in row["notes"][-2]
    assert row["epoch_seconds"]["mid"] == pytest.approx(100 * row["step_seconds"]["mid"])
    with pytest.raises(CotuneError, match=r"no KIND_DEVICE\.csv"):
        cotune(*asked[:-4], "--layers", "nowhere", "--tier", "layerwise")


NETS = """
from torch import nn

class Two(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
"""


def test_an_activation_counts_with_the_layer_before_it() -> None:
    made = Workload(
        "two",
        lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)),
        lambda examples: (torch.zeros(examples, 4),),
        sum_of_outputs,
    )
    reading = read_network(made, 3, "sgd")
    assert [row["activation"] for row in reading.rows["dense"]] == ["tanh", "none"]
