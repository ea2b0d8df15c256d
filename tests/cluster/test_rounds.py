"""Policies that decide in rounds, against their definitions: the programmes that they are said to solve."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cotune.cluster.policies.gavel import _by_programme, _of_one_kind
from cotune.cluster.policies.goodput import _least_value


@pytest.mark.parametrize("seed", range(8))
def test_gavel_shares_one_kind_of_device_as_its_programme_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, there = int(rng.integers(1, 12)), float(rng.integers(2, 40))
    gpus = rng.choice([1.0, 2.0, 4.0], jobs)
    weights = rng.choice([1.0, 2.0], jobs) if seed % 2 else np.ones(jobs)
    shares = _of_one_kind(np.ones(jobs, dtype=bool), gpus, weights, there)
    solved = _by_programme(rng.uniform(0.5, 2.0, (jobs, 1)), gpus, weights, np.array([there]))[:, 0]
    assert gpus @ shares <= there + 1e-9
    assert (shares / weights).min() == pytest.approx((solved / weights).min(), abs=1e-5)
    assert (shares / weights).sum() == pytest.approx((solved / weights).sum(), abs=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_goodput_finds_the_best_of_all_choices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    units = [sorted(rng.choice([1, 2, 4], int(rng.integers(1, 4)), replace=False).tolist()) for _ in range(6)]
    values = [-rng.uniform(0.1, 1.0, len(sizes)) for sizes in units]
    gpus = int(rng.integers(4, 9))
    chosen = _least_value(units, values, gpus)
    total = sum(values[row][place] for row, place in chosen)
    assert len({row for row, _ in chosen}) == len(chosen)
    assert sum(units[row][place] for row, place in chosen) <= gpus
    every = product(*(range(-1, len(sizes)) for sizes in units))
    best = min(
        sum(values[row][place] for row, place in enumerate(places) if place >= 0)
        for places in every
        if sum(units[row][place] for row, place in enumerate(places) if place >= 0) <= gpus
    )
    assert total == pytest.approx(best)
