"""Joint keeps what it promised, at a cost near the least there can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cotune.cluster.options import packing
from cotune.cluster.policies.elasticflow import Elasticflow
from cotune.cluster.policies.joint import Joint
from cotune.cluster.policies.orders import Edf, Srtf
from cotune.cluster.policy import COUNTED, Active, Nodes, Promise, Submission, rigid_config
from cotune.cluster.simulate import Outcome, simulate
from cotune.cluster.simulate.metrics import metrics
from cotune.cluster.simulate.world import mistaken
from cotune.cluster.work import Steady
from cotune.types import Cluster, Config, Device

SIZES = (1, 2, 4, 8, 16)


class OnFours(Steady):
    """Work that is slower on more nodes of four GPUs than it needs."""

    def rate(self, config: Config, nodes: Nodes = COUNTED, done: float = 0.0) -> float:
        torn = len(nodes.gpus) > -(-config.workers // 4)
        return super().rate(config, nodes, done) / (1.5 if torn else 1.0)


def jobs(
    seed: int, count: int, *, every: float = 0.0, sizes: Sequence[int] = SIZES, kind: type[Steady] = Steady
) -> list[Submission]:
    """Return jobs that need more than one GPU to be in time, arriving together or one after the other."""
    rng = np.random.default_rng(seed)
    trace, now = [], 0.0
    for number in range(count):
        now += float(rng.exponential(every)) if every else 0.0
        shape, work = float(rng.uniform(0.5, 0.95)), float(rng.uniform(500.0, 5000.0))
        limit = now + work / 16**shape * float(rng.uniform(1.5, 8.0))
        steady = kind(work, {rigid_config(gpus): gpus**shape for gpus in sizes})
        trace.append(Submission(str(number), now, 4, work / 4**shape, limit, steady, rigid_config(4)))
    return trace


def least_alone(job: Submission) -> float:
    """Return the least GPU time that ends a job in time: a mix of two sizes, whatever the others do."""
    assert isinstance(job.work, Steady)
    assert job.deadline is not None
    rates = {config.workers: rate for config, rate in job.work.rates.items()}
    time, work = job.deadline - job.submit, job.work.total
    costs = [gpus * work / rate for gpus, rate in rates.items() if rate * time >= work]
    for small, slow in rates.items():
        for large, fast in rates.items():
            if slow * time < work <= fast * time:
                long = (work - slow * time) / (fast - slow)  # on the larger size, the rest on the smaller
                costs.append(large * long + small * (time - long))
    return min(costs)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_room_for_all_it_costs_hardly_more_than_each_job_alone(seed: int) -> None:
    trace = jobs(seed, 40)
    found = simulate(trace, Cluster((Device("gpu", 192),)), Joint(slack=0.0))
    assert not found.declined.any()
    assert found.service.sum() <= 1.01 * sum(map(least_alone, trace))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("slack", "restart"), [(0.0, 0.0), (0.3, 0.0), (0.3, 30.0)])
def test_whoever_was_admitted_on_true_forecasts_is_in_time(seed: int, slack: float, restart: float) -> None:
    trace, cluster = jobs(seed, 60, every=25.0), Cluster((Device("gpu", 24),))
    found = simulate(trace, cluster, Joint(slack=slack), restart=restart)
    assert in_time(found)


@pytest.mark.parametrize("seed", [1, 3])
def test_on_nodes_hardly_a_job_is_torn_apart_and_all_who_were_admitted_are_in_time(seed: int) -> None:
    trace = jobs(seed, 60, every=25.0, sizes=range(1, 17), kind=OnFours)
    cluster = Cluster((Device("gpu", 24, per_node=4),))
    found = simulate(trace, cluster, Joint(), restart=10.0, keep_spells=True)
    torn = [spell for spell in found.spells if len(spell.nodes) > -(-spell.gpus // 4)]
    assert len(torn) <= 0.05 * len(found.spells)
    assert in_time(found)


def in_time(found: Outcome) -> bool:
    """Return whether all who were admitted ended in time; some, but not all, have to be."""
    limit = np.array([job.deadline for job in found.jobs])
    admitted = found.declined == 0
    assert 0 < admitted.sum() < len(admitted)
    return bool((found.end[admitted] <= limit[admitted]).all())


def test_sizes_that_pack_are_whole_nodes_and_parts_that_divide_one() -> None:
    every = [rigid_config(gpus) for gpus in range(1, 17)]
    found = {size: packing(every, Cluster((Device("gpu", 48, per_node=size),))) for size in (None, 4, 6)}
    assert found[None] == every
    assert [config.workers for config in found[4]] == [1, 2, 4, 8, 12, 16]
    assert [config.workers for config in found[6]] == [1, 2, 3, 6, 12]
    assert packing(every[2:3], Cluster((Device("gpu", 8, per_node=4),))) == every[2:3]


@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_on_uncertain_forecasts_it_keeps_nearly_all_it_admits_and_more_than_elasticflow(noise: float) -> None:
    met, missed = {}, {}
    for policy in (Joint(), Elasticflow()):
        kept = [
            metrics(
                simulate(
                    jobs(seed, 40, every=60.0), Cluster((Device("gpu", 24),)), policy, believe=mistaken(noise, 40, seed)
                )
            )["deadlines"]
            for seed in range(2)
        ]
        met[policy] = sum(one["met"] for one in kept)
        missed[policy] = sum(one["admitted_missed"] for one in kept)
    assert met[Joint()] > met[Elasticflow()]
    assert missed[Joint()] <= 0.05 * (met[Joint()] + missed[Joint()])


def test_the_fuller_the_cluster_the_smaller_a_job_has_to_be_while_others_wait() -> None:
    cluster = Cluster((Device("gpu", 8),))
    small, large = Submission("small", 0.0, 1, 1.0, 100.0), Submission("large", 0.0, 4, 90.0, 100.0)  # 360 of 800 s
    for held, waits, taken in ((0, True, True), (1, True, False), (4, True, False), (1, False, True)):
        there = Active(small, 0, 1.0, promise=Promise((50.0, 100.0), (held, held)))
        other = Active(replace(small, name="other"), 1, 1.0, promise=None if waits else Promise((100.0,), (0,)))
        new = Active(large, 2, 90.0)
        assert Joint(firm=0.75).admit(new, [there, other, new], cluster) is taken, (held, waits)


def test_promises_are_laid_anew_where_all_can_be_kept_but_narrow_ones_leave_no_wide_stretch() -> None:
    narrow = [Submission("two", 0.0, 2, 7.0, 17.0), Submission("one", 3.0, 1, 11.0, 15.0)]
    wide = Submission("three", 6.0, 3, 10.0, 20.0)  # beside the narrower of the others alone
    found = simulate([*narrow, wide], Cluster((Device("gpu", 4),)), Joint())
    assert not found.declined.any()
    assert all(end <= job.deadline for end, job in zip(found.end, found.jobs, strict=True) if job.deadline)


def test_who_finds_no_room_waits_and_is_given_up_when_it_can_no_longer_be_in_time() -> None:
    first = Submission("first", 0.0, 4, 40.0, 60.0)
    late = Submission("late", 2.0, 4, 30.0, 50.0)  # to be begun by 20
    arrivals = [first, late, Submission("other", 25.0, 1, 1.0, 99.0)]
    found = simulate(arrivals, Cluster((Device("gpu", 4),)), Joint(firm=0.75))
    assert list(found.declined) == [0, 1, 0]
    assert found.end[0] == pytest.approx(40.0, abs=1.1)
    assert found.waited[1] == 23.0


@pytest.mark.parametrize("seed", [1, 2])
def test_of_rigid_jobs_in_a_crowd_it_keeps_more_than_those_who_go_by_length(seed: int) -> None:
    rng = np.random.default_rng(seed)
    at = np.cumsum(rng.exponential(60.0, 150))
    lasts, gpus = rng.lognormal(7.0, 1.0, 150), rng.choice([1, 1, 2, 4, 8], 150)
    limits = at + lasts * rng.uniform(1.2, 3.0, 150)
    rows = zip(at.tolist(), gpus.tolist(), lasts.tolist(), limits.tolist(), strict=True)
    trace = [Submission(str(number), *row) for number, row in enumerate(rows)]
    kept = {
        type(policy).__name__: metrics(simulate(trace, Cluster((Device("gpu", 32),)), policy))["deadlines"]
        for policy in (Joint(), Srtf(), Edf(), Elasticflow())
    }
    assert kept["Joint"]["met"] >= max(one["met"] for one in kept.values())
    assert kept["Joint"]["admitted_missed"] == 0


def test_who_runs_before_its_promise_begins_is_not_stopped_for_one_who_is_due_sooner_where_starts_take_time() -> None:
    jobs = [Submission(name, at, 1, 40.0, 200.0) for name, at in (("first", 0.0), ("second", 1.0))]
    moments = [Submission(f"other {at}", at, 1, 1.0, at + 90.0) for at in (10.0, 20.0, 30.0)]  # each asks anew
    found = simulate([*jobs, *moments], Cluster((Device("gpu", 2),)), Joint(), restart=2.0)
    assert not found.declined.any()
    assert list(found.starts[:2]) == [1, 1]


def test_a_dear_promise_that_is_not_firm_makes_way_for_a_cheap_one() -> None:
    cluster = Cluster((Device("gpu", 4),))
    dear = Submission("dear", 0.0, 4, 90.0, 100.0)  # more than three quarters of what there is: not firm
    cheap = Submission("cheap", 1.0, 4, 20.0, 25.0)
    found = simulate([dear, cheap], cluster, Joint())
    assert list(found.declined) == [1, 0]
    kept = simulate([dear, cheap], cluster, Joint(firm=1.0))
    assert list(kept.declined) == [0, 1]


def test_a_promise_is_counted_between_two_times() -> None:
    promise = Promise((10.0, 20.0, 40.0), (4, 0, 2))
    assert [promise.held(*times) for times in ((0, 50), (5, 30), (10, 20), (40, 60))] == [80.0, 40.0, 0.0, 0.0]


def test_a_good_forecast_is_kept_for_certain_and_a_vague_one_at_a_risk() -> None:
    assert [Joint().margin(spread) for spread in (0.01, 0.1, 0.3, 1.0)] == pytest.approx([2.75, 2.75, 0.35 / 0.3, 0.35])


@pytest.mark.parametrize(
    ("restart", "noise", "per_node", "counted", "summed"),
    [
        (0.0, 0.0, None, (198, 761, 584), (380788.28512722824, 243373.37978091344)),
        (30.0, 0.0, 8, (213, 444, 471), (332225.98070544266, 243838.34497304575)),
        (0.0, 0.1, None, (202, 1145, 607), (348930.58719137555, 269494.1663776266)),
    ],
)
def test_what_makes_it_quicker_changes_no_decision(
    restart: float, noise: float, per_node: int | None, counted: tuple[int, ...], summed: tuple[float, ...]
) -> None:
    trace = jobs(7, 300, every=12.0)
    cluster = Cluster((Device("gpu", 32, per_node=per_node),))
    played = simulate(trace, cluster, Joint(), restart=restart, believe=mistaken(noise, len(trace)))
    assert (played.declined.sum(), played.starts.sum(), len(played.latency)) == counted
    ends = played.end[played.finished].sum()
    assert (ends, played.service.sum()) == pytest.approx(summed, rel=1e-12)
