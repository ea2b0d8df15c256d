"""The table of devices against itself and against measured products on real GPUs."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import pytest

from cotune.devices import known, table
from cotune.devices.present import keep, kept
from cotune.errors import InvalidFile
from cotune.modelling.counting.calibrate import calibrate


def test_every_device_is_sourced_and_plausible() -> None:
    for spec in table().values():
        assert spec.source
        assert 1e11 < spec.flops["fp32"] < 3e14
        assert 1e10 < spec.bandwidth < 1e13
        assert spec.memory >= 4e9
        assert 0.25e9 < spec.clock < 6e9
        assert all(spec.flops[name] >= spec.flops["fp32"] for name in spec.flops)
        assert 4 < spec.flops["fp32"] / spec.bandwidth < 120  # operations per byte at which memory stops to matter


def test_the_devices_that_others_need_are_there() -> None:
    wanted = {"k20", "k40", "k80", "titan_x", "t4", "v100", "a100", "h100", "h200", "l4", "rtx_4090", "epyc_9654"}
    assert wanted <= set(table())


@pytest.mark.parametrize(
    ("spelt", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100-SXM4-40GB", "a100_40gb"),
        ("NVIDIA GeForce RTX 2080 Ti", "rtx_2080_ti"),
        ("GeForce GTX TITAN X", "titan_x"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100_pcie"),
        ("Tesla T4", "t4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
        ("H200", "h200"),
        ("rtx-4090", "rtx_4090"),
    ],
)
def test_a_device_is_known_by_the_name_its_driver_gives(spelt: str, name: str) -> None:
    found = known(spelt)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("spelt", ["", "gpu", "z9", "a1000", "h2000", "AMD EPYC"])
def test_a_device_that_is_not_there_is_not_guessed(spelt: str) -> None:
    assert known(spelt) is None


@pytest.mark.parametrize("gpu", ["h100_sxm", "h200_sxm", "l40s", "b200_sxm"])
def test_measured_products_stay_below_the_published_peak_and_come_near_it(gpu: str) -> None:
    if "COTUNE_DATA" not in os.environ:
        pytest.skip("needs COTUNE_DATA")
    path = Path(os.environ["COTUNE_DATA"]) / "aiconfigurator" / f"gemm_bf16_{gpu}.csv.gz"
    with gzip.open(path, "rt") as rows:
        best = max(
            2 * float(row["m"]) * float(row["n"]) * float(row["k"]) / (float(row["ms"]) / 1e3)
            for row in csv.DictReader(rows)
        )
    peak = table()[gpu.removesuffix("_sxm")].flops["bf16"]
    assert 0.5 * peak < best < 1.02 * peak


def test_this_machine_can_be_calibrated_and_the_figures_are_kept(tmp_path: Path) -> None:
    assert kept(tmp_path, "cpu") is None
    found = calibrate("cpu")
    path = keep(found, tmp_path)
    assert kept(tmp_path, "cpu") == found
    assert 1e8 < found.product["fp32"] < 1e12
    assert 1e8 < found.bandwidth < 1e12
    assert 1e-7 < found.dispatch < 1e-2
    assert 0 <= found.step < 1e-1
    path.write_text('{"name": 1}')
    with pytest.raises(InvalidFile, match="model calibrate"):
        kept(tmp_path, "cpu")
