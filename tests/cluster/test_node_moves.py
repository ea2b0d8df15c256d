"""Small jobs make way for those that need whole nodes."""

from __future__ import annotations

import numpy as np

from cotune.cluster.node_moves import Tenant, emptied
from cotune.cluster.node_packing import OnNodes
from cotune.cluster.policy import Active, Submission, rigid_config
from cotune.types import Cluster, Device


def job(number: int, gpus: int) -> Active:
    return Active(Submission(str(number), 0.0, gpus, 10.0), number, 10.0, config=rigid_config(gpus), held=gpus)


def test_the_fewest_gpus_are_moved_that_make_a_node_whole() -> None:
    one, two, three = job(0, 1), job(1, 2), job(2, 3)
    tenants = {0: [Tenant(one, 1, True)], 1: [Tenant(two, 2, True)], 2: [Tenant(three, 3, False)]}
    assert emptied(np.array([3, 2, 1]), 4, 4, tenants) == [one]
    assert emptied(np.array([3, 2, 1]), 4, 8, tenants) is None  # the third node stays, and there is no hole for both


def test_nobody_is_moved_who_may_not_be() -> None:
    assert emptied(np.array([3, 2]), 4, 4, {0: [Tenant(job(0, 1), 1, False)], 1: [Tenant(job(1, 2), 2, False)]}) is None


def test_a_job_stands_on_a_whole_node_once_a_patient_one_was_moved() -> None:
    places = OnNodes("consolidate", Cluster((Device("gpu", 8, per_node=4),)))
    first, filler, second = job(0, 2), job(1, 2), job(2, 2)
    for active in (first, filler, second):
        places.take(active)
    places.release(filler)  # two GPUs are free on each node
    large = job(3, 4)
    start = [(large, rigid_config(4))]
    assert places.placeable(start, [], lambda _: False) == (start, ())
    placed, moved = places.placeable(start, [], lambda active: active is not large)
    assert (list(placed), len(moved)) == (start, 1)
    for active, _ in moved:
        places.release(active)
    for active, _ in (*placed, *moved):
        places.take(active)
    assert large.nodes.gpus == (4,)


def test_a_patient_newcomer_waits_rather_than_be_torn_apart() -> None:
    places = OnNodes("consolidate", Cluster((Device("gpu", 8, per_node=4),)))
    held = [job(number, 2) for number in range(3)]
    for active in held:
        places.take(active)
    places.release(held[1])
    large = job(3, 4)
    placed, moved = places.placeable([(large, rigid_config(4))], [], lambda active: active is large)
    assert (list(placed), list(moved)) == ([], [])
