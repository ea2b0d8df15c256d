"""What every policy must keep to, whatever it is: new files are taken in by themselves."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cotune import registry
from cotune.cluster.loop import drive
from cotune.cluster.node_packing import placer
from cotune.cluster.parameter_servers import ParameterServerWork
from cotune.cluster.policy import Policy, Submission
from cotune.cluster.simulate import simulate
from cotune.cluster.simulate.metrics import metrics
from cotune.cluster.simulate.world import Simulated
from cotune.cluster.testing import NODES, SMALL, elastic, rigid
from cotune.cluster.work import Steady
from cotune.types import Config

POLICIES = registry.names("policy")


def make(name: str) -> Policy:
    policy: Any = registry.load("policy", name)()
    if hasattr(policy, "history"):
        policy = replace(policy, history=(10.0, 100.0, 1000.0))
    if getattr(policy, "interval", None):
        policy = replace(policy, interval=5.0)
    found: Policy = policy
    return found


def served(seed: int, jobs: int = 12) -> list[Submission]:
    rng = np.random.default_rng(seed)
    found = []
    for number in range(jobs):
        blocks = tuple(rng.uniform(1.0, 9.0, 5).tolist())
        work = ParameterServerWork(float(rng.integers(20, 200)), 64, (0.01, 0.05, 0.2, 0.01, 0.01), blocks, most=6)
        wants, submit = work.config(2, 1), float(rng.integers(0, 200))
        alone = work.seconds(0.0, wants)
        found.append(Submission(f"job-{number}", submit, 3, alone, submit + 3 * alone, work, wants, batch_size=64))
    return found


def batched(seed: int, jobs: int = 12) -> list[Submission]:
    """Return jobs that can run with two batch sizes, with and without servers, as `cotune serve` hands them in."""
    configs = [
        Config.data_parallel(batch, workers, "gpu", servers=servers)
        for batch in (16, 64)
        for workers in (1, 2, 4)
        for servers in (0, 1, 3)
    ]
    rates = {one: one.workers**0.7 * one.batch_size**0.2 * (1.1 if one.servers == 1 else 1.0) for one in configs}
    return [
        replace(job, gpus=wants.units, seconds=job.seconds / rates[wants], work=Steady(job.seconds, rates), wants=wants)
        for job, wants in ((job, configs[job.row % len(configs)]) for job in numbered(rigid(seed, jobs)))
    ]


def numbered(jobs: list[Submission]) -> list[Submission]:
    return [replace(job, row=row) for row, job in enumerate(jobs)]


TRACES = {
    "batched": batched(6),
    "served": served(4),
    "rigid": rigid(0),
    "elastic": elastic(1),
    "mixed": [*rigid(2, 15), *(replace(job, name=f"elastic-{job.name}") for job in elastic(3, 15))],
}


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_keeps_capacity_and_gangs_and_conserves_work_at_every_event(name: str, trace: str) -> None:
    world = Simulated(sorted(TRACES[trace], key=lambda job: job.submit))
    times: list[float] = []

    def look(_decision: object) -> None:
        times.append(world.now())
        total = sum(active.held for active in world.present.values())
        assert total <= sum(device.count or 0 for device in SMALL.devices)
        for active in world.present.values():
            config = active.config
            assert active.held == (0 if config is None else config.workers + config.servers)
            if config is not None and active.job.work is None:
                assert config.workers == active.job.gpus

    for active in drive(make(name), SMALL, world, placer(None, SMALL), look):
        whole = active.job.seconds if active.job.work is None else active.job.work.total
        assert active.declined or active.done == pytest.approx(whole)
    assert times == sorted(times)


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_finishes_every_job_it_admits(name: str, trace: str) -> None:
    found = simulate(TRACES[trace], SMALL, make(name))
    assert np.isfinite(found.end[found.declined == 0]).all()
    rigid_rows = [row for row, job in enumerate(found.jobs) if job.work is None and not found.declined[row]]
    worked = [found.jobs[row].gpus * found.jobs[row].seconds for row in rigid_rows]
    assert found.service[rigid_rows] == pytest.approx(worked)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_and_metric_lives_with_jobs_that_take_no_time_or_never_end(name: str) -> None:
    trace = [
        Submission("at-once", 0.0, 1, 0.0),
        Submission("endless", 0.0, 2, math.inf, deadline=50.0),
        Submission("usual", 5.0, 4, 3.0, deadline=90.0),
        Submission("last", 5.0, 4, 0.0, deadline=90.0),
    ]
    policy: Any = make(name)
    if hasattr(policy, "history"):
        policy = replace(policy, history=tuple(job.gpus * job.seconds for job in trace))
    for jobs, ended in ((trace, 3), (trace[1:2], 0)):
        found = metrics(simulate(jobs, SMALL, policy))
        assert found["unfinished"] + found["declined"] == len(jobs) - ended
        assert found["fairness"]["jain"] is None or 0 < found["fairness"]["jain"] <= 1


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_runs_on_nodes(name: str) -> None:
    for rule in ("consolidate", "spread", "even", "fragmentation", "emptiest"):
        found = simulate(TRACES["elastic"], NODES, make(name), placement=rule, keep_spells=True)
        assert np.isfinite(found.end[found.declined == 0]).all()
        for spell in found.spells:
            assert sum(gpus for _, gpus in spell.nodes) == spell.gpus
            assert max(gpus for _, gpus in spell.nodes) <= 4
