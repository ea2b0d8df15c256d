"""Placement rules and parameter assignment against what they promise, and small jobs that make way for large ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.cluster.node_packing import OnNodes, Tenant, emptied
from cotune.cluster.node_rules import RULES, wasted
from cotune.cluster.parameter_servers import ParameterServerWork, assign_parameters, fullest
from cotune.cluster.policies.optimus import Optimus
from cotune.cluster.policies.orders import Fifo, Srsf, Srtf
from cotune.cluster.policy import Active, Submission, rigid_config
from cotune.cluster.simulate import simulate
from cotune.cluster.simulate.clusters import parse_cluster
from cotune.cluster.traces import read
from cotune.errors import InvalidFile
from cotune.types import Cluster, Device

frees = st.lists(st.integers(0, 8), min_size=1, max_size=12).filter(any)


@pytest.mark.parametrize("rule", RULES)
@given(frees, st.data())
def test_every_rule_takes_what_was_asked_from_what_is_free(rule: str, free: list[int], data: st.DataObject) -> None:
    gpus = data.draw(st.integers(1, sum(free)))
    taken = RULES[rule](np.array(free), gpus, False, np.array([1, 2, 4, 8]))
    assert taken is not None
    assert sum(count for _, count in taken) == gpus
    assert len({node for node, _ in taken}) == len(taken)
    assert all(0 < count <= free[node] for node, count in taken)


@given(frees, st.data())
def test_consolidation_needs_no_more_nodes_than_any_other_rule(free: list[int], data: st.DataObject) -> None:
    gpus = data.draw(st.integers(1, sum(free)))
    sizes = np.array([1])
    taken = {name: RULES[name](np.array(free), gpus, False, sizes) for name in RULES}
    fewest = min(len(taking) for taking in taken.values() if taking)
    assert len(taken["consolidate"] or ()) == fewest


def test_a_skewed_job_waits_rather_than_being_spread() -> None:
    assert RULES["skew"](np.array([2, 2]), 4, True, np.array([4])) is None
    assert RULES["skew"](np.array([2, 4]), 4, True, np.array([4])) == [(1, 4)]


def test_an_even_job_has_the_same_number_on_each_node() -> None:
    assert sorted(RULES["even"](np.array([4, 4, 3]), 6, False, np.array([1])) or ()) == [(0, 3), (1, 3)]


@given(st.lists(st.integers(0, 4), min_size=4, max_size=12).filter(any), st.data())
def test_a_job_stays_within_one_rack_where_one_has_room_and_else_in_as_few_as_can_be(
    free: list[int], data: st.DataObject
) -> None:
    gpus = data.draw(st.integers(1, sum(free)))
    cluster = Cluster((Device("gpu", 4 * len(free), per_node=4, nodes_per_rack=3),))
    room = sorted((sum(free[start : start + 3]) for start in range(0, len(free), 3)), reverse=True)
    fewest = next(racks for racks in range(1, len(room) + 1) if sum(room[:racks]) >= gpus)
    for rule in ("consolidate", "emptiest", "even", "fragmentation"):
        nodes = OnNodes(rule, cluster)
        nodes.free["gpu"][:] = free
        active = Active(Submission("job", 0.0, gpus, 1.0), 0, 1.0, config=rigid_config(gpus))
        nodes.take(active)
        assert active.nodes.racks == fewest
        assert len({node // 3 for node, _ in nodes.held(active)}) == fewest
        assert sum(count for _, count in nodes.held(active)) == gpus
        assert (nodes.free["gpu"] >= 0).all()
        nodes.release(active)
        assert nodes.free["gpu"].tolist() == free


@pytest.mark.parametrize("policy", [Fifo(), Srtf(), Srsf()])
def test_a_job_across_racks_is_as_much_slower_as_its_trace_says(tmp_path: Path, policy: Fifo) -> None:
    cluster, trace = tmp_path / "cluster.yaml", tmp_path / "trace.csv"
    cluster.write_text("devices: {gpu: {count: 8, per_node: 2, nodes_per_rack: 2}}\n")
    trace.write_text("job_id,submit_s,gpus,duration_s,rack_slowdown\na,0,3,10,1.5\nb,0,3,10,1.5\nc,0,2,30,1.5\n")
    found = simulate(read(trace).jobs, parse_cluster(str(cluster)), policy)
    assert found.end.tolist() == [10.0, 10.0, 45.0]  # one GPU is left in each rack for c


def test_what_no_usual_job_can_use_is_wasted() -> None:
    assert wasted(np.array([3]), np.array([2, 4])).tolist() == [2.0]  # 1 left by a job of 2, all 3 by one of 4


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=30), st.integers(1, 6))
def test_parameters_are_all_assigned_and_no_server_holds_much_more_than_its_part(
    sizes: list[float], servers: int
) -> None:
    found = [sum(server) for server in assign_parameters(sizes, servers)]
    assert sum(found) == pytest.approx(sum(sizes))
    assert max(found) <= 2.3 * sum(sizes) / servers


LAW = (0.001, 0.01, 1.0, 0.0, 0.02)


def test_optimus_takes_a_server_only_where_the_blocks_can_be_shared_out() -> None:
    # For three servers two blocks of a half make four quarters, of which one server has two: no gain over two servers.
    assert [fullest((0.5, 0.5), servers) for servers in (1, 2, 3, 4)] == pytest.approx([1.0, 0.5, 0.5, 0.25])
    assert fullest((1.0,) * 6, 3) == pytest.approx(1 / 3)
    given = {}
    for name, blocks in {"two": (0.5, 0.5), "six": (1 / 6,) * 6}.items():
        work = ParameterServerWork(1000.0, 64, LAW, blocks, most=7)
        job = Submission(name, 0.0, 2, work.seconds(0.0, work.config(1, 1)), work=work, wants=work.config(1, 1))
        given[name] = Optimus().allocate([Active(job, 0, job.seconds, work)], Cluster((Device("gpu", 7),)))[name]
    assert given["six"].servers >= 3
    assert given["two"].servers == 2


def test_a_trace_tells_of_parameter_servers_and_optimus_makes_use_of_it(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    head = "job_id,submit_s,gpus,duration_s,batch_size,servers,server_law,parameter_bytes"
    trace.write_text(f"{head}\na,0,2,100,64,1,0.001 0.01 1 0 0.02,5 5 5 5\n")
    (job,) = read(trace).jobs
    assert (job.gpus, job.config.workers, job.config.servers) == (3, 2, 1)
    assert job.work is not None
    assert job.work.seconds(0.0, job.config) == pytest.approx(100.0)
    asked, optimus = (simulate([job], parse_cluster("8"), policy).end[0] for policy in (Fifo(), Optimus()))
    assert asked == pytest.approx(100.0)
    assert optimus < 60.0
    for wrong in ("0.001 0.01,5 5", "0 0 0 0 0,5 5", "1 1 1 1 1,", "1 1 1 1 x,5"):
        trace.write_text(f"{head}\na,0,2,100,64,1,{wrong}\n")
        with pytest.raises(InvalidFile, match="line 2: "):
            read(trace)


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
