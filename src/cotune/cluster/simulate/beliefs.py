"""What policies believe: the truth, times a factor that differs from job to job.

    believed seconds = true seconds x exp(noise x z),    z standard normal, seeded

The truth is unchanged, so that what differs between two noise levels is the policy alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from cotune.cluster.policy import Active, Submission
from cotune.cluster.simulate.world import Believe, exactly
from cotune.cluster.work import Believed


def mistaken(noise: float, jobs: int, seed: int = 0) -> Believe:
    """Return how jobs arrive when forecasts are off by a factor; policies know how far off they are wont to be."""
    if noise == 0:
        return exactly
    factors = np.exp(noise * np.random.default_rng(seed).standard_normal(jobs)).tolist()

    def believe(job: Submission, number: int) -> Active:
        factor = factors[number]
        work = None if job.work is None else Believed(job.work, factor)
        total = job.seconds * factor if job.seconds < math.inf else math.inf
        return Active(job, number, total, work, spread=noise)

    return believe


def flips(scores: Mapping[float, Mapping[str, float | None]]) -> list[tuple[float, str, str]]:
    """Return (noise, better then, better without noise) for each pair of policies whose order changes.

    A policy under which no job ended has no score, and is neither better nor worse.
    """
    levels: Sequence[float] = sorted(scores)
    truth = scores[levels[0]]
    found = []
    for noise in levels[1:]:
        for one, other in combinations(truth, 2):
            worse = _over(truth, one, other)
            if worse * _over(scores[noise], one, other) < 0:
                found.append((noise, one, other) if worse > 0 else (noise, other, one))
    return found


def _over(scores: Mapping[str, float | None], one: str, other: str) -> float:
    first, second = scores[one], scores[other]
    return 0.0 if first is None or second is None else first - second
