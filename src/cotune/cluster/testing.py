"""What every policy promises: within the cluster, whole gangs, all admitted jobs finished, the same again."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from cotune.cluster.policy import Submission, rigid_config
from cotune.cluster.simulate import simulate
from cotune.cluster.work import Steady
from cotune.types import Cluster, Device

SMALL = Cluster((Device("gpu", 8, 1.0),))
NODES = Cluster((Device("gpu", 16, 2.0, 4),))


class PolicyConformance:
    """Name your policy: `algorithm = Youngest()`."""

    algorithm: Any

    def test_no_more_is_given_than_there_is(self) -> None:
        for trace in (rigid(0), elastic(1)):
            outcome = simulate(trace, SMALL, self.algorithm, keep_spells=True)
            for moment in {spell.start for spell in outcome.spells}:
                assert sum(spell.gpus for spell in outcome.spells if spell.start <= moment < spell.end) <= 8

    def test_a_rigid_job_gets_all_it_asked_for_or_nothing(self) -> None:
        outcome = simulate(rigid(0), SMALL, self.algorithm, keep_spells=True)
        assert all(spell.gpus == outcome.jobs[spell.number].gpus for spell in outcome.spells)

    def test_every_job_that_is_admitted_ends(self) -> None:
        for trace in (rigid(0), elastic(1)):
            outcome = simulate(trace, SMALL, self.algorithm)
            assert np.isfinite(outcome.end[outcome.declined == 0]).all()

    def test_it_decides_the_same_again(self) -> None:
        first, second = (simulate(elastic(1), NODES, self.algorithm, restart=3.0) for _ in range(2))
        assert np.array_equal(first.end, second.end)

    def test_it_lives_with_a_job_that_never_ends(self) -> None:
        trace = [Submission("endless", 0.0, 2, math.inf), *rigid(5, 10)]
        outcome = simulate(trace, SMALL, self.algorithm)
        assert not np.isfinite(outcome.end[[job.name for job in outcome.jobs].index("endless")])


def rigid(seed: int, jobs: int = 40) -> list[Submission]:
    """Return jobs that ask for a number of GPUs and take so many seconds on them."""
    rng = np.random.default_rng(seed)
    return [
        Submission(
            f"job-{number}",
            float(rng.integers(0, 200)),
            int(rng.choice([1, 1, 1, 2, 4, 8])),
            float(rng.integers(1, 60)),
            deadline=float(rng.integers(200, 900)),
            team=str(rng.choice(["red", "blue"])),
        )
        for number in range(jobs)
    ]


def elastic(seed: int, jobs: int = 20) -> list[Submission]:
    """Return jobs that can run on 1, 2, 4 or 8 GPUs, each doubling worth less than the one before."""
    return [
        replace(
            job,
            wants=rigid_config(job.gpus),
            work=Steady(job.seconds, {rigid_config(g): (g / job.gpus) ** 0.8 for g in (1, 2, 4, 8)}),
        )
        for job in rigid(seed, jobs)
    ]
