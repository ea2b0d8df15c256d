"""Scaling operator times to another GPU: the formula at its corners, and a real pair of GPUs."""

from __future__ import annotations

import csv
import gzip
import os
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.devices import table
from cotune.modelling.habitat import MeasuredOperator, measured, memory_share, scaled, step_seconds

V100, T4 = table()["v100"], table()["t4"]


def test_an_operator_without_arithmetic_scales_with_the_memory() -> None:
    copy = MeasuredOperator("copy", 1e-3, 1, 0.0, 1e9)
    assert scaled(copy, V100, T4) == pytest.approx(1e-3 * 900 / 320)


def test_an_operator_without_bytes_scales_with_clock_and_multiprocessors() -> None:
    product = MeasuredOperator("mm", 1e-3, 1, 1e12, 0.0)
    assert scaled(product, V100, T4) == pytest.approx(1e-3 * (1530 * 80) / (1590 * 40))


def test_at_the_ridge_memory_and_arithmetic_weigh_the_same() -> None:
    ridge = T4.flops["fp32"] / T4.bandwidth
    assert memory_share(ridge * 1e6, 1e6, T4) == pytest.approx(0.5)


@given(st.floats(0, 1e13), st.floats(0, 1e11))
def test_the_share_of_memory_is_a_share_and_falls_with_arithmetic(flops: float, moved: float) -> None:
    share = memory_share(flops, moved, V100)
    assert 0 <= share <= 1
    assert memory_share(2 * flops, moved, V100) <= share + 1e-12


@given(st.sampled_from(sorted(table())), st.floats(1e-5, 1), st.floats(0, 1e13), st.floats(0, 1e11))
def test_the_same_device_takes_the_same_time(name: str, seconds: float, flops: float, moved: float) -> None:
    device = table()[name]
    assert scaled(MeasuredOperator("op", seconds, 1, flops, moved), device, device) == pytest.approx(seconds)


def test_a_tiny_kernel_is_its_launch_and_stays() -> None:
    assert scaled(MeasuredOperator("add", 3e-6, 1, 10.0, 120.0), V100, T4) == 3e-6


def test_a_step_is_the_sum_of_its_operators_and_what_was_idle() -> None:
    operators = measured([("mm", 2e-3, 3), ("odd", 1e-3, 1)], {"mm": "matmul"}.get, {"matmul": (6e9, 1e7)}, "fp16")
    assert operators[0] == MeasuredOperator("mm", 2e-3, 3, 6e9, 1e7, "fp16")
    assert operators[1].precision == "fp32"
    assert scaled(operators[1], V100, T4) == pytest.approx(1e-3 * 900 / 320)
    expected = 5e-4 + sum(scaled(one, V100, T4) for one in operators)
    assert step_seconds(operators, V100, T4, idle=5e-4) == pytest.approx(expected)


def _products(gpu: str) -> dict[tuple[int, int, int], float]:
    if "COTUNE_DATA" not in os.environ:
        pytest.skip("needs COTUNE_DATA")
    path = next((Path(os.environ["COTUNE_DATA"]) / "aiconfigurator").glob(f"gemm_bf16_{gpu}*.csv.gz"))
    with gzip.open(path, "rt") as rows:
        return {(int(row["m"]), int(row["n"]), int(row["k"])): float(row["ms"]) / 1e3 for row in csv.DictReader(rows)}


@pytest.mark.parametrize(
    ("origin", "destination", "most"), [("h100", "h200", 0.12), ("h200", "b200", 0.20), ("l40s", "h100", 0.28)]
)
def test_products_measured_on_one_gpu_tell_those_of_another(origin: str, destination: str, most: float) -> None:
    known, truth = _products(origin), _products(destination)
    errors, unscaled = [], []
    for (m, n, k), seconds in known.items():
        if (m, n, k) in truth:
            work = MeasuredOperator("mm", seconds, 1, 2.0 * m * n * k, 2.0 * (m * k + k * n + m * n), "bf16")
            errors.append(abs(scaled(work, table()[origin], table()[destination]) / truth[m, n, k] - 1))
            unscaled.append(abs(seconds / truth[m, n, k] - 1))
    assert len(errors) > 30_000
    assert statistics.median(errors) < most
    assert statistics.mean(errors) < statistics.mean(unscaled)


def test_a_faster_memory_never_makes_an_operator_slower() -> None:
    quick = replace(T4, bandwidth=2 * T4.bandwidth)
    work = MeasuredOperator("add", 1e-3, 1, 1e6, 1e8)
    assert scaled(work, V100, quick) <= scaled(work, V100, T4)
