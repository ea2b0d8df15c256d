"""At which epochs a forecast speaks of accuracy: where the job tells it, once an epoch or several times in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from cotune import progress
from cotune.predict.accuracy import AccuracyOutlook
from cotune.predict.annealing import Annealing
from cotune.predict.fits import KEPT
from cotune.types import RECORDED, Job, ProgressUnit, Sample

_MOST_IN_EPOCH = 16  # evaluations in an epoch that a forecast tells apart
_OFTEN = 0.5  # epochs between evaluations, from which a forecast is finer than epochs


def evaluations(job: Job, samples: Sequence[Sample]) -> float:
    """Return how often a job is evaluated in a part of its length, as measured; once where it tells no more."""
    spans = [(len(one.curve) - 1, one.curve[-1].epoch - one.curve[0].epoch) for one in samples if len(one.curve) > 1]
    often = [count / parts for count, parts in spans if parts > 0]
    if job.counting == ProgressUnit() and step_of(job, samples) == 1:
        return 1.0
    return float(np.median(often)) if often else 1.0


def step_of(job: Job, samples: Sequence[Sample]) -> float:
    """Return the epochs between two evaluations where a job tells several in an epoch; else one.

    A recording is replayed in whole epochs, and a length that is cut into parts is as fine already.
    """
    live = [one for one in samples if one.engine != RECORDED and len(one.curve) > 1]
    if not live or job.counting.parts != 1:
        return 1.0
    gap = float(np.median(np.concatenate([np.diff([point.epoch for point in one.curve]) for one in live])))
    return 1 / min(round(1 / gap), _MOST_IN_EPOCH) if 0 < gap <= _OFTEN else 1.0


@lru_cache(KEPT)
def resolved(outlook: AccuracyOutlook, job: Job, step: float, annealing: Annealing | None) -> AccuracyOutlook:
    """Return an outlook at the resolution of the job's evaluations; of the ends of runs where it is of those."""
    if step == 1 and annealing is None:
        return outlook
    return replace(outlook, step=step, annealing=annealing, grain=float(progress.whole_units(job, 1)))
