"""Layer models learn real layers, carry them to devices never seen, and refuse what they cannot read."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotune.errors import CotuneError
from cotune.lab.bench.layers import LayerRefusal, LayerRow, bench_layers
from cotune.modelling.layer_features import published, work
from cotune.modelling.layer_rows import Layers, read_layers
from cotune.modelling.predictors.layerwise import LayerTrees, Layerwise
from modelling.layer_worlds import layers


def _justus() -> dict[str, Layers]:
    if "COTUNE_DATA" not in os.environ:
        pytest.skip("needs COTUNE_DATA")
    return read_layers(Path(os.environ["COTUNE_DATA"]) / "justus2018")


def test_published_matrix_products_are_read_as_dense_layers_of_known_gpus() -> None:
    if "COTUNE_DATA" not in os.environ:
        pytest.skip("needs COTUNE_DATA")
    made = read_layers(Path(os.environ["COTUNE_DATA"]) / "aiconfigurator")["dense"]
    assert {str(name) for name in np.unique(made.device)} == {"b200_sxm", "h100_sxm", "h200_sxm", "l40s"}
    assert len(made.ms) == 4 * 35_742
    speed = work(made).flops / (made.ms / 1e3)
    h100 = made.device == "h100_sxm"
    assert 0.5 < speed[h100].max() / 989e12 < 1.02


def test_the_features_are_as_many_as_were_published() -> None:
    assert [published(layers("conv", 40), hardware=known).shape[1] for known in (False, True)] == [17, 20]
    assert published(layers("dense", 40), hardware=False).shape[1] == 12


def test_work_is_counted_as_by_hand() -> None:
    shape = {"batch": "2", "size_in": "8", "kernel": "3", "c_in": "4", "c_out": "5", "stride": "2", "padding": "same"}
    rest = {"bias": "1", "activation": "relu", "optimizer": "none", "ms_median": "1"}
    one = work(Layers.of("conv", [shape | rest], "gpu", None))
    assert one.flops[0] == 2 * 2 * 4 * 4 * 5 * 3 * 3 * 4
    assert one.moved[0] == 4 * (2 * 64 * 4 + 2 * 16 * 5 + 9 * 4 * 5)
    trained = work(Layers.of("conv", [shape | rest | {"optimizer": "adam"}], "gpu", None))
    assert trained.flops[0] == 3 * one.flops[0]


def test_trees_carry_a_layer_to_a_device_never_seen() -> None:
    made = layers("conv", 1200)
    slow, fast = made.take(made.device == "slow"), made.take(made.device == "fast")
    found = replace(LayerTrees(), trees=150).fit_layers(slow).predict(fast)
    assert np.median(np.abs(found / fast.ms - 1)) < 0.15
    assert np.median(np.abs(found / slow.ms[: len(found)] - 1)) > 0.3


def test_the_published_network_learns() -> None:
    made = layers("conv", 1200)
    slow = made.take(made.device == "slow")
    rows = np.arange(len(slow))
    found = Layerwise(epochs=200).fit_layers(slow.take(rows[:500])).predict(slow.take(rows[500:]))
    plain = np.abs(np.median(slow.ms[:500]) / slow.ms[500:] - 1).mean()
    assert np.abs(found / slow.ms[500:] - 1).mean() < 0.5 * plain


def test_real_layers_of_seen_and_unseen_gpus_are_foreseen_from_few_rows() -> None:
    tables = _justus()
    few = {kind: table.take(np.random.default_rng(0).permutation(len(table))[:3000]) for kind, table in tables.items()}
    rows = [
        row for row in bench_layers(few, ["layer_trees(trees=40,members=1)"], across=500) if isinstance(row, LayerRow)
    ]
    for kind, seen, unseen in (("conv", 0.25, 0.30), ("dense", 0.10, 0.35)):
        assert np.median([row.mape for row in rows if row.kind == kind and row.seen]) < seen
        assert np.median([row.mape for row in rows if row.kind == kind and not row.seen]) < unseen


def test_tables_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(CotuneError, match=r"no KIND_DEVICE\.csv"):
        read_layers(tmp_path)
    (tmp_path / "dense_gpu.csv").write_text("batch,dim_in\n1,two\n")
    with pytest.raises(CotuneError, match=r"dense_gpu\.csv is not a table of dense layers"):
        read_layers(tmp_path)
    (tmp_path / "dense_gpu.csv").write_text("batch,dim_in,dim_out,activation,optimizer,ms_median\n1,2,3,none,none,4\n")
    (tmp_path / "devices.csv").write_text("device,gflops\ngpu,fast\n")
    with pytest.raises(CotuneError, match=r"devices\.csv"):
        read_layers(tmp_path)


def test_a_model_that_learns_no_layers_is_refused() -> None:
    with pytest.raises(CotuneError, match="layerwise"):
        list(bench_layers({"dense": layers("dense", 60)}, ["ring"]))


def test_too_few_layers_have_a_reason_for_an_answer() -> None:
    (refused,) = bench_layers({"dense": layers("dense", 20).take(np.arange(9))}, ["layerwise"])
    assert isinstance(refused, LayerRefusal)
    assert refused.reason == "7 timed dense layers of a device: at least 20 are needed"
