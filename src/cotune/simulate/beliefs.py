"""What policies believe: the truth, times a factor that differs from job to job.

    believed seconds = true seconds x exp(noise x z),    z standard normal, seeded

The truth is unchanged, so that what differs between two noise levels is the policy alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from cotune.schedule import Active, Submission
from cotune.schedule._work import Believed
from cotune.simulate.world import Believe, exactly


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


def flips(scores: Mapping[float, Mapping[str, float]]) -> list[tuple[float, str, str]]:
    """Return (noise, better then, better without noise) for each pair of policies whose order changes."""
    levels: Sequence[float] = sorted(scores)
    truth = scores[levels[0]]
    found = []
    for noise in levels[1:]:
        for one, other in combinations(truth, 2):
            if (truth[one] - truth[other]) * (scores[noise][one] - scores[noise][other]) < 0:
                better = one if truth[one] < truth[other] else other
                found.append((noise, other if better == one else one, better))
    return found
