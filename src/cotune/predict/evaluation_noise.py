"""The noise of one evaluation: how far it may lie from what its run has learnt.

    noise = max(bends of the later half of curves, repeats of one batch late in them, LEAST of the range)

The bends of a batch's own curves are shrunk to those of all batches.
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
_ALL_BATCHES = 2.0  # evaluations that all batches together are worth where the noise of one is asked for
_FEW_REPEATS = 16  # of a batch: of more, each is held against the next alone


def evaluation_noise(found: Sequence[LearningCurve], span: float) -> Floats:
    """Return the noise at each batch that was trained, the smallest first; `span` is the range of all values."""
    return np.maximum(_jitter(found), max(LEAST * span, _scatter(found)))


def _jitter(found: Sequence[LearningCurve]) -> Floats:
    """Return the noise of one evaluation at each batch: what its own curves say, shrunk to what all do."""
    whole = [np.concatenate([_bends(curve) for curve in same]) for same in by_global_batch(found).values()]
    told = np.array([len(bends) for bends in whole], dtype=np.float64)
    if not told.any():
        return np.zeros(len(whole))
    usual = _deviation(np.concatenate(whole))
    own = np.array([_deviation(bends) if len(bends) else usual for bends in whole])
    return np.asarray((told * own + _ALL_BATCHES * usual) / (told + _ALL_BATCHES))


def _deviation(bends: Floats) -> float:
    return float(1.4826 * np.median(bends))


@lru_cache(CURVES)
def _bends(curve: LearningCurve) -> Floats:
    """Return by how much evaluations of a curve's later half are off the line between their neighbours."""
    later = curve.epochs >= _LATER_PART * curve.epochs[-1]
    later[-4:] = True
    logs, values = np.log(curve.epochs[later]), curve.accuracy[later]
    if len(values) < 3:
        return np.zeros(0)
    share = (logs[1:-1] - logs[:-2]) / (logs[2:] - logs[:-2])
    off = values[1:-1] - (1 - share) * values[:-2] - share * values[2:]
    return np.asarray(np.abs(off) / np.sqrt(1 + share**2 + (1 - share) ** 2))


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
