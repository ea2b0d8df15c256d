"""Single policies against their definitions: programmes that they solve, steps they climb, what they remember."""

from __future__ import annotations

import math
import os
from itertools import product

import numpy as np
import pytest

from cotune.cluster.policies.fair_share import FairShare
from cotune.cluster.policies.gavel import _by_programme, _of_one_kind, quietly
from cotune.cluster.policies.goodput import _least_value
from cotune.cluster.policies.optimus import Ladder, climb
from cotune.cluster.policy import Submission
from cotune.cluster.simulate import simulate
from cotune.types import Cluster, Config, Device


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


def config(batch: int, workers: int, servers: int = 0) -> Config:
    return Config.data_parallel(batch, workers, servers=servers)


def test_of_several_batches_the_fastest_is_climbed() -> None:
    configs = [config(batch, workers) for batch in (16, 64) for workers in (1, 2, 4)]
    left = {one: 100 / one.workers / (2 if (one.batch_size == 64) == (one.workers > 1) else 1) for one in configs}
    assert climb(configs, left.__getitem__) == (config(16, 1), config(64, 2), config(64, 4))


def test_gaps_between_sizes_are_climbed_by_what_saves_most_per_unit() -> None:
    configs = [config(8, workers, servers) for workers in (1, 4) for servers in (1, 2)]
    left = {configs[0]: 100.0, configs[1]: 80.0, configs[2]: 55.0, configs[3]: 50.0}
    way = climb(configs, left.__getitem__)
    assert [(one.workers, one.servers) for one in way] == [(1, 1), (1, 2), (4, 2)], "20 per unit, then 10; not 15 first"


def test_a_step_between_two_that_never_end_gains_nothing() -> None:
    assert Ladder([config(8, 1), config(8, 2)], lambda _: math.inf).look() == 0.0


def test_the_team_that_used_less_goes_first_although_it_came_later() -> None:
    trace = [
        Submission("red-1", 0.0, 4, 100.0, team="red"),
        Submission("red-2", 1.0, 4, 10.0, team="red"),
        Submission("blue-1", 2.0, 4, 10.0, team="blue"),
    ]
    found = simulate(trace, Cluster((Device("gpu", 4),)), FairShare())
    assert found.start.tolist() == [0.0, 110.0, 100.0]


def test_no_team_holds_more_than_its_quota() -> None:
    trace = [Submission(str(number), 0.0, 1, 10.0, team="red") for number in range(4)]
    found = simulate(trace, Cluster((Device("gpu", 4),)), FairShare(quota=0.5))
    assert found.start.tolist() == [0.0, 0.0, 10.0, 10.0]


def test_what_native_code_prints_while_solving_is_not_seen_also_where_it_fails(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def solve() -> None:
        with quietly():
            os.write(1, b"HighsMipSolverData: a debug line\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        solve()
    os.write(1, b"seen")
    assert capfd.readouterr().out == "seen"
