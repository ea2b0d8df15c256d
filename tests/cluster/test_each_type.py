"""Policies that know one type of device, on a cluster of two; and quotas over both."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune import registry
from cotune.cluster.each_type import EachType, knowing_types
from cotune.cluster.governed import Governed
from cotune.cluster.policies.elasticflow import Elasticflow
from cotune.cluster.policies.joint import Joint
from cotune.cluster.policy import Active, Policy, Submission, rigid_config
from cotune.cluster.work import Steady
from cotune.types import Cluster, Device

CLUSTER = Cluster((Device("fast", 4, per_node=2), Device("slow", 6, per_node=2)))
POLICIES = [name for name in registry.names("policy") if not hasattr(registry.load("policy", name), "history")]
TYPES = {"fast": ("fast",), "slow": ("slow",), "any": ("fast", "slow")}


def job(number: int, kinds: tuple[str, ...], team: str = "", priority: int = 0, gpus: int = 2) -> Active:
    speed = {"fast": 3.0, "slow": 1.0}
    rates = {rigid_config(units, 1, kind): units * speed[kind] for kind in kinds for units in (1, 2, 4)}
    submission = Submission(
        f"job-{number}",
        0.0,
        gpus,
        100.0,
        work=Steady(400.0, rates),
        wants=rigid_config(gpus, 1, kinds[0]),
        device=kinds[0] if len(kinds) == 1 else None,
        team=team,
        priority=priority,
    )
    return Active(submission, number, 100.0, submission.work)


drawn = st.lists(
    st.tuples(
        st.sampled_from([*TYPES.values()]), st.sampled_from(["", "red"]), st.integers(0, 2), st.sampled_from([1, 2, 4])
    ),
    max_size=8,
).map(lambda rows: [job(number, *row) for number, row in enumerate(rows)])


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=15)
@given(active=drawn, red=st.integers(0, 10))
def test_every_policy_gives_a_job_its_own_types_within_what_there_is_and_its_quota(
    name: str, active: list[Active], red: int
) -> None:
    policy: Policy = registry.create("policy", name)
    shares = Governed(knowing_types(policy, CLUSTER), {"red": red}).allocate(active, CLUSTER)
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
    active = [job(0, ("fast",)), job(1, ("slow",)), job(2, ("fast", "slow"))]
    policy = knowing_types(Elasticflow(), CLUSTER)
    assert isinstance(policy, EachType)
    given = policy.allocate(active, CLUSTER)
    assert {name: config.device for name, config in given.items()} == {
        "job-0": "fast",
        "job-1": "slow",
        "job-2": "fast",
    }
    assert knowing_types(Joint(), CLUSTER) == Joint()
    assert knowing_types(Elasticflow(), Cluster((Device("fast", 4),))) == Elasticflow()
