from __future__ import annotations

import csv
import gzip
import itertools
import math
import os
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.worker.balance import Balancer, Speed, shares, straggling

speeds = st.builds(
    lambda fixed, each, least, room: Speed(fixed, each, least, least + room),
    st.floats(0, 0.1),
    st.floats(1e-3, 0.1),
    st.integers(0, 3),
    st.integers(0, 60),
)


@given(st.lists(speeds, min_size=1, max_size=6), st.data())
def test_shares_add_up_and_keep_their_bounds(workers: list[Speed], data: st.DataObject) -> None:
    least, most = sum(speed.least for speed in workers), sum(int(speed.most) for speed in workers)
    total = data.draw(st.integers(least, most))
    found = shares(total, workers)
    assert sum(found) == total
    assert all(speed.least <= share <= speed.most for share, speed in zip(found, workers, strict=True))


@given(st.lists(speeds, min_size=2, max_size=3), st.data())
def test_no_other_shares_finish_much_earlier(workers: list[Speed], data: st.DataObject) -> None:
    least, most = sum(speed.least for speed in workers), sum(int(speed.most) for speed in workers)
    total = data.draw(st.integers(least, min(most, 25 + least)))

    def last(given: tuple[int, ...]) -> float:
        return max(speed.seconds(share) for speed, share in zip(workers, given, strict=True) if share or speed.least)

    ranges = [range(speed.least, min(int(speed.most), total) + 1) for speed in workers]
    best = min(last(one) for one in itertools.product(*ranges) if sum(one) == total and any(one)) if total else 0.0
    found = last(tuple(shares(total, workers))) if total else 0.0
    assert found <= best + max(speed.each for speed in workers) + max(speed.fixed for speed in workers)


def test_equal_workers_get_equal_batches_and_a_slow_start_is_paid_for() -> None:
    assert shares(64, [Speed(0, 1)] * 4) == [16] * 4
    assert shares(100, [Speed(0, 1), Speed(0, 1), Speed(0, 2), Speed(0, 4)]) == [37, 36, 18, 9]
    late, early = shares(100, [Speed(20, 1), Speed(0, 1)])
    assert (late, early) == (40, 60)
    assert shares(100, [Speed(0, 1, most=30), Speed(0, 10)]) == [30, 70]


@pytest.mark.parametrize("total", [1, 500])
def test_what_does_not_fit_is_refused(total: int) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        shares(total, [Speed(0, 1, 1, 100)] * 3)


def test_a_balancer_finds_unequal_speeds_and_then_leaves_them_alone() -> None:
    balancer = Balancer(128, 4)
    costs = (1.0, 1.0, 2.0, 4.0)
    for _ in range(12):
        balancer.look([5.0 + cost * share for cost, share in zip(costs, balancer.shares, strict=True)])
    took = [5.0 + cost * share for cost, share in zip(costs, balancer.shares, strict=True)]
    assert sum(balancer.shares) == 128
    assert max(took) < 1.1 * (128 + 5 * sum(1 / cost for cost in costs)) / sum(1 / cost for cost in costs)
    changes = balancer.changes
    for _ in range(5):
        balancer.look(took)
    assert balancer.changes == changes


def test_small_differences_are_not_worth_a_change() -> None:
    balancer = Balancer(128, 2)
    assert not balancer.look([1.0, 1.04])
    assert not balancer.look([1.0, 1.04])
    assert not balancer.look([1.0, 1.5])  # once is no trend
    assert balancer.look([1.0, 1.5])


def test_balanced_batches_follow_speeds_that_change_as_in_a_real_cluster() -> None:
    folder = os.environ.get("COTUNE_DATA")
    if not folder:
        pytest.skip("needs COTUNE_DATA")
    times: dict[str, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    with gzip.open(Path(folder) / "pai_minibatch" / "worker_batch_times.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            times[row["job"]][int(row["iteration"])][int(row["worker"])] = float(row["batch_time_norm"])
    gains = []
    for iterations in times.values():
        workers = sorted(set.union(*(set(step) for step in iterations.values())))
        balancer = Balancer(64 * len(workers), len(workers))
        equal = balanced = 0.0
        for step in (step for _, step in sorted(iterations.items()) if len(step) == len(workers)):
            each = [max(step[worker], 1.0) / 64 for worker in workers]  # time of one example now
            took = [cost * share for cost, share in zip(each, balancer.shares, strict=True)]
            equal += max(each) * 64
            balanced += max(took)
            balancer.look(took)
        gains.append(equal / balanced)
    assert len(gains) == 4
    assert min(gains) > 0.97, gains  # never much worse where speeds only flicker
    assert max(gains) > 1.1, gains
    assert math.prod(gains) > 1, gains


def test_the_straggler_effect_is_the_spread_over_the_mean() -> None:
    assert straggling([1.0, 1.0, 2.0]) == pytest.approx(0.75)
