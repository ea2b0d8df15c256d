"""Fair shares remember who used the cluster."""

from __future__ import annotations

from cotune.cluster.policies.fair_share import FairShare
from cotune.cluster.policy import Submission
from cotune.cluster.simulate import simulate
from cotune.types import Cluster, Device


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
