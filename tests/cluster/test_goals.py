"""Targets and deadlines for traces that have none, and who makes use of them."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotune.cluster.policies.elasticflow import Elasticflow
from cotune.cluster.policies.joint import Joint
from cotune.cluster.simulate import simulate
from cotune.cluster.simulate.clusters import parse_cluster
from cotune.cluster.simulate.metrics import metrics
from cotune.cluster.traces import Trace, read
from cotune.cluster.traces.shaping import ToTarget, with_deadlines, with_targets
from cotune.errors import UsageError

BATCHES = {64: (1000, (0.5, 0.7, 0.82, 0.9)), 128: (520, (0.5, 0.68, 0.8, 0.88)), 256: (300, (0.4, 0.6, 0.7, 0.8))}


def table(path: Path, rows: list[dict[str, float]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Write a workload of an application whose smaller batches learn more from each example."""
    app, workloads = tmp_path / "net", tmp_path / "workloads"
    app.mkdir()
    workloads.mkdir()
    for batch, (steps, metric) in BATCHES.items():
        rows = [
            {"iteration": steps * e, "progress": 1000 * e, "metric": metric[e - 1], "grad_sqr": 1.0, "grad_var": 50.0}
            for e in range(1, 5)
        ]
        table(app / f"validation-{batch}.csv", rows)
    times = [
        {"placement": place, "local_bsz": local, "step_time": 0.02 + local / 1000, "sync_time": 0.01}
        for place in (1, 2, 3, 4)
        for local in (16, 64, 256)
    ]
    table(app / "placements.csv", times)
    wide = [
        {
            "num_nodes": nodes,
            "num_replicas": gpus,
            "local_bsz": local,
            "step_time": 0.03 + local / 1000,
            "sync_time": 0.02,
        }
        for nodes, gpus in ((2, 5), (2, 8), (4, 13), (4, 16))
        for local in (16, 64, 256)
    ]
    table(app / "scalability.csv", wide)
    path = workloads / "workload.csv"
    lines = [f"net-{n},{60 * n},net,4,256" for n in range(12)]
    path.write_text("name,time,application,num_replicas,batch_size\n" + "\n".join(lines) + "\n")
    return read(path)


def test_the_target_is_what_every_batch_gets_to_and_each_ends_at_its_first_evaluation_there(trace: Trace) -> None:
    work = with_targets(trace).jobs[0].work
    assert isinstance(work, ToTarget)
    assert work.target == 0.8
    steps = {batch: work.application.steps_to(work.target, batch) for batch in BATCHES}
    assert steps == pytest.approx({64: 3000, 128: 1560, 256: 1200})
    config = work.application.layout(128, 4)
    assert work.seconds(0.0, config) == pytest.approx(1560 * (0.02 + 32 / 1000))
    assert work.seconds(0.25, config) == pytest.approx(0.75 * work.seconds(0.0, config))


def test_for_each_number_of_gpus_the_batch_that_is_there_first_is_offered(trace: Trace) -> None:
    work = with_targets(trace).jobs[0].work
    assert isinstance(work, ToTarget)
    every = [config for batch in BATCHES for config in work.application.layouts(batch)]
    for config in work.recipes:
        rivals = [other for other in every if other.workers == config.workers]
        assert work.rate(config) == max(map(work.rate, rivals))
    assert all(256 - config.workers < config.global_batch <= 256 for config in work.configs)


def test_deadlines_lie_between_the_limits_and_those_given_stay(trace: Trace) -> None:
    given = replace(trace, jobs=(replace(trace.jobs[0], deadline=7.0), *trace.jobs[1:]))
    first, *others = with_deadlines(given, 0.5, 1.5).jobs
    assert first.deadline == 7.0
    factors = [((job.deadline or 0.0) - job.submit) / job.seconds for job in others]
    assert 0.5 <= min(factors) < 1 < max(factors) <= 1.5
    assert with_deadlines(given, 0.5, 1.5) == with_deadlines(given, 0.5, 1.5)


def test_joint_meets_targets_by_other_batches_at_less_cost(trace: Trace) -> None:
    asked = with_deadlines(with_targets(trace), 1.0, 2.0)
    cluster = parse_cluster("8")
    ours, theirs = (metrics(simulate(asked.jobs, cluster, policy)) for policy in (Joint(), Elasticflow()))
    assert ours["deadlines"]["admitted_missed"] == 0
    assert ours["deadlines"]["met"] >= theirs["deadlines"]["met"] > 0
    assert ours["gpu_hours"] < 0.85 * theirs["gpu_hours"]


@pytest.mark.parametrize("policy", [Joint(), Elasticflow()])
def test_what_starting_takes_is_part_of_the_plan(trace: Trace, policy: Joint | Elasticflow) -> None:
    asked = with_deadlines(with_targets(trace), 1.0, 2.0)
    found = simulate(asked.jobs, parse_cluster("64"), policy, restart=10.0)
    limit = np.array([job.deadline for job in found.jobs])
    admitted = found.declined == 0
    assert admitted.any()
    assert (found.end[admitted] <= limit[admitted]).all()


def test_a_trace_without_learning_curves_has_no_targets(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\na,0,1,5\n")
    with pytest.raises(UsageError, match="learning curves"):
        with_targets(read(path))
