"""What met its goal before: runs from scratch that did, one after another, since their config last missed one.

A run that met a goal makes this goal and easier ones no less likely, however late it was: of two runs alike,

    P(the second meets it, the first having met it) = E[q^2] / E[q] >= E[q]         q: the chance of each

Nor does one that was no later than was expected make any goal less likely. So P(met) is at least what it was without
it, and at least what k runs of k say by themselves, (k + 1/2) / (k + 1) (Jeffreys). A fit that follows each sample need
not see it so: a start that was very quick makes starts look far apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotune.forecast import Success
from cotune.types import Config, Job, Sample

MOST = 8  # successes that are looked back on, one after another


def successes(job: Job, samples: Sequence[Sample]) -> list[tuple[int, Success]]:
    """Return the place among the samples of each success that still counts, the earliest first."""
    found: dict[Config, list[tuple[int, Success]]] = {}
    for place, sample in enumerate(samples):
        if sample.purpose != "run" or sample.goal is None or not sample.ended or sample.resumed_from:
            continue
        if _met(job, sample):
            found.setdefault(sample.config, []).append((place, Success(sample.config, sample.seconds, sample.goal)))
        else:
            found.pop(sample.config, None)
    return sorted((one for each in found.values() for one in each), key=lambda one: one[0])[-MOST:]


def _met(job: Job, sample: Sample) -> bool:
    goal = sample.goal
    if goal is None or sample.failure is not None:
        return False
    learnt = sample.epochs >= goal.cap if goal.target is None else job.reached(goal.target, sample)
    return learnt and (goal.deadline is None or sample.seconds <= goal.deadline)
