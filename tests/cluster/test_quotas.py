"""Any policy under an operator's rules: priorities, quotas, types of device, and a policy changed while jobs run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune import registry
from cotune.cluster.loop import Changes, InForce, drive
from cotune.cluster.node_packing import Count
from cotune.cluster.policies.elasticflow import Elasticflow
from cotune.cluster.policies.joint import Joint
from cotune.cluster.policies.orders import Fifo, Srtf
from cotune.cluster.policy import Active, Policy, Submission, rigid_config
from cotune.cluster.quotas import EachType, WithinQuotas, knowing_types
from cotune.cluster.simulate import simulate
from cotune.cluster.simulate.world import Simulated
from cotune.cluster.work import Steady
from cotune.types import Cluster, Device

CLUSTER = Cluster((Device("gpu", 8, 1.0),))
POLICIES = [name for name in registry.names("policy") if not hasattr(registry.load("policy", name), "history")]


def job(number: int, team: str, priority: int, gpus: int, kinds: tuple[str, ...] = ("gpu",)) -> Active:
    speed = {"gpu": 1.0, "fast": 3.0, "slow": 1.0}
    rates = {rigid_config(units, 1, kind): units * speed[kind] for kind in kinds for units in (1, 2, 4, 8)}
    wants, device = rigid_config(gpus, 1, kinds[0]), kinds[0] if len(kinds) == 1 else None
    work = Steady(400.0, rates)
    submission = Submission(
        f"job-{number}", 0.0, gpus, 100.0, work=work, wants=wants, device=device, team=team, priority=priority
    )
    return Active(submission, number, 100.0, work)


jobs = st.lists(
    st.tuples(st.sampled_from(["", "red", "blue"]), st.integers(-1, 2), st.sampled_from([1, 2, 4])), max_size=9
).map(lambda drawn: [job(number, *one) for number, one in enumerate(drawn)])


def held(given: Any, active: list[Active], team: str) -> int:
    return sum(given[one.job.name].units for one in active if one.job.team == team and one.job.name in given)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=15)
@given(active=jobs, red=st.integers(0, 8), blue=st.integers(0, 8))
def test_no_team_holds_more_than_its_quota_nor_all_more_than_there_is(
    name: str, active: list[Active], red: int, blue: int
) -> None:
    policy: Policy = registry.create("policy", name)
    shares = WithinQuotas(policy, {"red": red, "blue": blue}).allocate(active, CLUSTER)
    assert held(shares, active, "red") <= red
    assert held(shares, active, "blue") <= blue
    assert sum(config.units for config in shares.values()) <= 8


@pytest.mark.parametrize("name", POLICIES)
def test_without_quotas_and_with_one_priority_it_is_the_policy_itself(name: str) -> None:
    policy: Policy = registry.create("policy", name)
    active = [job(number, "red", 0, 2) for number in range(6)]
    again = [job(number, "red", 0, 2) for number in range(6)]
    assert WithinQuotas(policy).allocate(active, CLUSTER) == policy.allocate(again, CLUSTER)


def test_a_higher_priority_is_served_first_and_what_is_left_goes_to_the_others() -> None:
    active = [job(0, "", 0, 4), job(1, "", 0, 4), job(2, "", 5, 4)]
    assert set(WithinQuotas(Fifo()).allocate(active, CLUSTER)) == {"job-2", "job-0"}


def test_a_policy_that_stops_nobody_does_not_stop_one_of_lower_priority() -> None:
    running, urgent = job(0, "", 0, 8), job(1, "", 9, 8)
    running.config, running.held = running.job.config, 8
    assert set(WithinQuotas(Fifo()).allocate([running, urgent], CLUSTER)) == {"job-0"}
    assert set(WithinQuotas(Srtf()).allocate([running, urgent], CLUSTER)) == {"job-1"}


def test_what_a_team_may_not_have_is_for_the_others() -> None:
    active = [job(0, "red", 0, 4), job(1, "red", 0, 4), job(2, "blue", 0, 4)]
    assert set(WithinQuotas(Fifo(), {"red": 4}).allocate(active, CLUSTER)) == {"job-0", "job-2"}


def test_a_simulation_takes_it_like_any_policy() -> None:
    trace = [replace(job(number, "red", 0, 4).job, work=None, seconds=10.0) for number in range(4)]
    assert max(simulate(trace, CLUSTER, WithinQuotas(Fifo())).end) == 20.0
    assert max(simulate(trace, CLUSTER, WithinQuotas(Fifo(), {"red": 4})).end) == 40.0


def test_the_policy_is_changed_while_jobs_run() -> None:
    long = Submission("long", 0.0, 8, 100.0)
    short = [Submission(f"short-{number}", 10.0 + number, 8, 5.0) for number in range(3)]
    policies: Iterator[Policy] = iter([Fifo(), Fifo()])
    last = Srtf()
    seen: list[Changes] = []
    world = Simulated([long, *short])
    in_force = lambda: InForce(next(policies, last), CLUSTER, CLUSTER)  # noqa: E731
    ended = [active.job.name for active in drive(Fifo(), CLUSTER, world, Count(), seen.append, in_force=in_force)]
    assert ended == ["short-0", "short-1", "short-2", "long"], "under fifo the long one would have ended first"


MIXED = Cluster((Device("fast", 4, per_node=2), Device("slow", 6, per_node=2)))
TYPES = (("fast",), ("slow",), ("fast", "slow"))
drawn = st.lists(
    st.tuples(st.sampled_from(["", "red"]), st.integers(0, 2), st.sampled_from([1, 2, 4]), st.sampled_from(TYPES)),
    max_size=8,
).map(lambda rows: [job(number, *row) for number, row in enumerate(rows)])


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=15)
@given(active=drawn, red=st.integers(0, 10))
def test_every_policy_gives_a_job_its_own_types_within_what_there_is_and_its_quota(
    name: str, active: list[Active], red: int
) -> None:
    policy: Policy = registry.create("policy", name)
    shares = WithinQuotas(knowing_types(policy, MIXED), {"red": red}).allocate(active, MIXED)
    held: Counter[str] = Counter()
    for one in active:
        config = shares.get(one.job.name)
        if config is not None:
            assert one.belief is one.job.work
            assert one.belief is not None
            assert config in one.belief.configs
            held[config.device] += config.units
    assert held["fast"] <= 4
    assert held["slow"] <= 6
    assert sum(shares[one.job.name].units for one in active if one.job.team == "red" and one.job.name in shares) <= red


def test_a_policy_of_one_kind_is_asked_for_each_type_and_others_are_themselves() -> None:
    active = [job(number, "", 0, 2, kinds) for number, kinds in enumerate(TYPES)]
    policy = knowing_types(Elasticflow(), MIXED)
    assert isinstance(policy, EachType)
    given = policy.allocate(active, MIXED)
    assert {name: config.device for name, config in given.items()} == {
        "job-0": "fast",
        "job-1": "slow",
        "job-2": "fast",
    }
    assert knowing_types(Joint(), MIXED) == Joint()
    assert knowing_types(Elasticflow(), Cluster((Device("fast", 4),))) == Elasticflow()
