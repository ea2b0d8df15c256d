"""What is kept of a simulation tells the same as the simulation."""

from __future__ import annotations

import numpy as np
import pytest

from cotune import registry
from cotune.cluster.policy import Submission
from cotune.cluster.simulate import Outcome, simulate
from cotune.cluster.simulate.archive import JOBS, kept
from cotune.types import Cluster, Device

CLUSTER = Cluster((Device("gpu", 4),))


def _played(jobs: list[Submission], policy: str = "fifo") -> Outcome:
    return simulate(jobs, CLUSTER, registry.create("policy", policy), keep_spells=True)


def test_reasons_are_those_of_the_schedule() -> None:
    jobs = [
        Submission("big", 0.0, 3, 100.0),
        Submission("wide", 10.0, 4, 50.0),
        Submission("small", 20.0, 1, 10.0),
    ]
    told = {job["name"]: job for job in kept(_played(jobs))["jobs"]}
    assert told["big"]["reason"] == ""
    assert told["wide"]["reason"].startswith("it needs 4 GPUs and 1 are free: 3 too few")
    assert "held by big (3)" in told["wide"]["reason"]
    assert "jobs ahead of it come first; 1 other waiting jobs went first" in told["small"]["reason"]
    assert told["wide"]["spells"] == [[100.0, 150.0, 4]]
    assert told["wide"]["waited"] == 90.0


def test_a_job_that_was_stopped_says_so() -> None:
    jobs = [Submission("long", 0.0, 4, 100.0), Submission("short", 10.0, 4, 10.0)]
    told = {job["name"]: job for job in kept(_played(jobs, "srtf"))["jobs"]}
    assert "stopped for others" in told["long"]["reason"]
    assert told["long"]["spells"] == [[0.0, 10.0, 4], [20.0, 110.0, 4]]


def test_many_jobs_keep_few_and_the_whole_distribution() -> None:
    rng = np.random.default_rng(0)
    jobs = [
        Submission(f"j{n}", float(rng.uniform(0, 1e4)), int(rng.integers(1, 5)), float(rng.exponential(50)))
        for n in range(1500)
    ]
    outcome = _played(jobs)
    document = kept(outcome)
    assert document["of"] == 1500
    assert len(document["jobs"]) <= 2 * JOBS
    submit = np.array([job.submit for job in outcome.jobs])
    jct = np.sort(outcome.end - submit)
    assert document["completion"]["seconds"][0] == pytest.approx(jct[0])
    assert document["completion"]["seconds"][-1] == pytest.approx(jct[-1])
    assert document["completion"]["seconds"] == sorted(document["completion"]["seconds"])
    assert 0 < max(document["use"]["share"]) <= 1 + 1e-9
    longest = max(job["waited"] for job in document["jobs"])
    assert longest == pytest.approx(outcome.waited.max())
