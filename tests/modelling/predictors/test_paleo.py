"""PALEO against its authors' own table, and its parts against their definitions."""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.errors import UsageError
from cotune.modelling.paleo_layers import Convolution, Dense, Pooling, Span
from cotune.modelling.paleo_torch import layers_of
from cotune.modelling.predictors.paleo import SCHEMES, Paleo, Platform, multiple, step
from cotune.modelling.workloads.named import find
from cotune.space import Configs
from modelling.paleo_nets import Net, parse_net, read_net
from predict.worlds import JOB, grid, timed

NETWORKS = {"ethernet": 10, "ethernet20": 20, "infiniband": 70}
PERCENTS = {"caffe": (0.21, 0.56), "mxnet": (0.49, 0.72), "tensorflow": (0.62, 0.72)}
# GFLOPS, GB/s and MHz that the authors' program holds.
DEVICES = {"K20": (3520, 208, 1000), "K40": (4290, 288, 745), "K80": (5600, 480, 560), "TITAN_X": (6144, 336.5, 1000)}


@cache
def folder() -> Path:
    if "COTUNE_DATA" not in os.environ:
        pytest.skip("needs COTUNE_DATA")
    return Path(os.environ["COTUNE_DATA"]) / "paleo_demo"


@cache
def net(model: str) -> Net:
    return read_net(folder() / f"net_{model}.json")


def published(
    gflops: float, gigabytes: float, megahertz: float, gigabits: float, percents: tuple[float, float]
) -> Platform:
    """A platform in the paper's units: GFLOPS, GiB per second, MHz and Gb per second."""
    return Platform(gflops * 1e9, gigabytes * 2**30, megahertz * 1e6, gigabits * 1e9, *percents)


@cache
def compute(model: str, device: str, software: str, batch: int) -> tuple[float, float]:
    """The seconds of computing, and those in which a 10 Gb link carries the parameters once."""
    platform = published(*DEVICES[device], 10, PERCENTS[software])
    two = step(net(model).layers, platform, batch=batch, workers=2, scheme="butterfly_mixing")
    return two.seconds - two.communication, two.communication


def ratios(model: str) -> Iterator[float]:
    with gzip.open(folder() / "predictions_gemm_only.csv.gz", "rt") as table:
        for row in csv.DictReader(table):
            if row["model"] != model:
                continue
            workers = int(row["workers"])
            share = 1 if row["scaling"] == "weak" else workers  # whose batch it is
            batch = math.ceil(int(row["batch"]) / share)
            own, link = compute(model, row["device"], row["software"], batch)
            shared = multiple(row["scheme"], workers) * link * 10 / NETWORKS[row["network"]]  # type: ignore[arg-type]
            yield (own + shared) * 1000 / float(row["ms"])


@pytest.mark.parametrize("model", ["alex_v2", "inception_v3"])
def test_every_row_of_the_authors_table_is_met(model: str) -> None:
    found = list(ratios(model))
    assert len(found) == 6912
    assert max(abs(ratio - 1) for ratio in found) < 1e-5


@pytest.mark.parametrize("model", ["nin", "overfeat", "vgg16"])
def test_the_authors_other_networks_can_be_read(model: str) -> None:
    platform = published(*DEVICES["K40"], 10, PERCENTS["tensorflow"])
    one = step(net(model).layers, platform, batch=32)
    assert 0 < one.forward < one.backward
    assert one.communication == 0


def test_a_dense_layer_counts_two_operations_per_weight_and_example() -> None:
    (forward,) = Dense(30, 20).forward(7)
    assert forward.flops == 2 * 7 * 30 * 20
    assert forward.moves == (4 * 7 * 30, 4 * 30 * 20, 4 * 7 * 20)
    assert sum(kernel.flops for kernel in Dense(30, 20).backward(7)) == 2 * forward.flops
    assert len(Dense(30, 20, first=True).backward(7)) == 1


@given(st.integers(8, 40), st.sampled_from([1, 3, 5]), st.sampled_from([1, 2]), st.sampled_from(["SAME", "VALID"]))
def test_the_gradient_of_a_convolution_has_its_shape(size: int, window: int, stride: int, padding: str) -> None:
    side = Span(size, window, stride, padding)  # type: ignore[arg-type]
    blown, around = side.blown_up
    if stride == 1:
        assert Span(blown, window, 1, around).out == size
        both = Convolution(side, side, 3, 8).backward(4)
        assert both[0].flops == pytest.approx(2 * window**2 * 8 * size**2 * 3 * 4)


def test_every_scheme_is_free_alone_and_never_cheaper_with_more_workers() -> None:
    for scheme in SCHEMES:
        multiples = [multiple(scheme, workers) for workers in (1, 2, 4, 8, 64)]
        assert multiples[0] == 0
        assert multiples == sorted(multiples)
    assert [multiple("tree_allreduce", n) for n in (2, 3, 8)] == [2, 4, 6]
    assert multiple("one_to_all", 9) == 16


@pytest.mark.parametrize("scheme", SCHEMES)
def test_as_a_predictor_it_finds_its_own_law_again(scheme: str) -> None:
    def law(batch: int, workers: int) -> float:
        return 0.01 + 0.0005 * batch + 0.004 * multiple(scheme, workers)  # type: ignore[arg-type]

    samples = timed(law, grid())
    model = Paleo(scheme).fit_seconds(JOB, samples)  # type: ignore[arg-type]
    unseen = timed(law, [(48, 16), (300, 3)])
    found = model.predict(Configs.of([sample.config for sample in unseen]))
    assert found == pytest.approx([sample.epoch_seconds for sample in unseen], rel=1e-6)


def test_an_unknown_scheme_is_named() -> None:
    with pytest.raises(UsageError, match="butterfly_mixing"):
        Paleo("butterfly").fit_seconds(JOB, timed(lambda b, n: 0.1 * b * n, grid()))  # type: ignore[arg-type]


def test_a_dense_layer_of_a_file_takes_all_that_enters_it() -> None:
    written = json.loads(
        '{"name": "n", "layers": {"data": {"type": "Input", "parents": [], "tensor": [2, 4, 4, 3]},'
        '"fc": {"type": "InnerProduct", "parents": ["data"], "num_outputs": 5}}}'
    )
    assert parse_net(written).layers == (Dense(48, 5, first=True),)


def test_the_layers_of_a_torch_model_are_those_of_its_definition() -> None:
    layers, strange = layers_of(find("alexnet"))
    convolutions = [layer for layer in layers if isinstance(layer, Convolution)]
    assert [layer.filters for layer in convolutions] == [64, 192, 384, 256, 256]
    assert [layer.first for layer in convolutions] == [True, False, False, False, False]
    assert [layer.height.out for layer in convolutions] == [55, 27, 13, 13, 13]
    assert sum(layer.parameters for layer in layers) == 61_100_840
    assert strange == ()
    forward = sum(kernel.flops for layer in layers for kernel in layer.forward(3) if not isinstance(layer, Pooling))
    assert forward == pytest.approx(3 * 1.4286e9, rel=1e-2)


def test_what_paleo_has_no_formula_for_is_named() -> None:
    layers, strange = layers_of(find("memnet"))
    assert [type(layer) for layer in layers] == [Dense]
    assert set(strange) == {"Embedding", "MemoryNetwork"}
