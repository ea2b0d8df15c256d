"""The noise of one evaluation: how far it may lie from what its run has learnt.

    noise = max(jumps in the later half of curves, repeats of one batch late in them, LEAST of the range)

A curve bends, noise or not, but a smooth one bends alike from one evaluation to the next: what jumps is noise. Three
evaluations tell nothing of it. The jumps of a batch are shrunk to those of all batches, and these to LEAST.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from cotune.predict.samples import CURVES, LearningCurve, by_global_batch
from cotune.types import Floats

LEAST = 0.003  # of the range
_LATER_PART = 0.5  # of a curve, in which it is flat enough to show its noise
_LAST = 5  # evaluations that are looked at in any case
_ALL_BATCHES = 2.0  # jumps that all batches together are worth where the noise of one is asked for, and other jobs
_OF_TWO = float(np.sqrt(10 / 3))  # deviation of the difference of two neighbouring bends, evenly apart, over the noise
_FEW_REPEATS = 16  # of a batch: of more, each is held against the next alone


def evaluation_noise(found: Sequence[LearningCurve], span: float) -> Floats:
    """Return the noise at each batch that was trained, the smallest first; `span` is the range of all values."""
    least = LEAST * span
    return np.maximum(_jitter(found, least), max(least, _scatter(found)))


def _jitter(found: Sequence[LearningCurve], least: float) -> Floats:
    """Return the noise of one evaluation at each batch: what its own curves say, shrunk to what all do."""
    whole = [np.concatenate([_jumps(curve) for curve in same]) for same in by_global_batch(found).values()]
    usual = _shrunk(np.concatenate(whole), least)
    return np.array([_shrunk(jumps, usual) for jumps in whole])


def _shrunk(jumps: Floats, usual: float) -> float:
    """Return the deviation of some jumps, of which there may be none."""
    own = float(1.4826 * np.median(jumps)) if len(jumps) else usual
    return (len(jumps) * own + _ALL_BATCHES * usual) / (len(jumps) + _ALL_BATCHES)


@lru_cache(CURVES)
def _jumps(curve: LearningCurve) -> Floats:
    """Return by how much neighbouring evaluations of a curve's later half are unlike off the line beside them.

    In deviations of one evaluation: of two neighbours each is in the other's line.
    """
    later = curve.epochs >= _LATER_PART * curve.epochs[-1]
    later[-_LAST:] = True
    logs, values = np.log(curve.epochs[later]), curve.accuracy[later]
    if len(values) < 4:
        return np.zeros(0)
    share = (logs[1:-1] - logs[:-2]) / (logs[2:] - logs[:-2])
    off = values[1:-1] - (1 - share) * values[:-2] - share * values[2:]
    bends = off / np.sqrt(1 + share**2 + (1 - share) ** 2)
    return np.asarray(np.abs(np.diff(bends)) / _OF_TWO)


def _scatter(found: Sequence[LearningCurve]) -> float:
    """Return the deviation between repeated curves of one batch at the epochs they share, late in the longest of all.

    Early on runs differ in pace, which is told by their luck.
    """
    late = _LATER_PART * max(float(curve.epochs[-1]) for curve in found)
    gaps = [
        np.abs(one.accuracy[shared[1]] - other.accuracy[shared[2]])[shared[0] >= late].mean() / np.sqrt(2) * 1.25
        for same in by_global_batch(found).values()
        for one, other in (itertools.combinations(same, 2) if len(same) <= _FEW_REPEATS else itertools.pairwise(same))
        if ((shared := np.intersect1d(one.epochs, other.epochs, return_indices=True))[0] >= late).any()
    ]
    return float(np.mean(gaps)) if gaps else 0.0
