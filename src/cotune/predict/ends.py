"""Whether a learning curve has turned: a network that learns its examples by heart gets worse on others.

For some time its evaluations have been lower than around its best, by more than their noise.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cotune.predict.samples import CURVES, LearningCurve

# Written with the curves of `benchmarks/reach.py` in sight, overfitting networks among them; no source was left out.
_LAST = 3  # evaluations at the end that must all lie below
_SURE = 3.0  # deviations of a mean of three by which a curve must have fallen
_SOME_TIME = 0.2  # of the epochs trained that have passed since the best


@lru_cache(CURVES)
def turn(curve: LearningCurve) -> float | None:
    """Return the epoch from which a curve has got worse by and by, if it has."""
    if len(curve.epochs) < 2 * _LAST:
        return None
    level = np.convolve(curve.accuracy, np.ones(_LAST) / _LAST, mode="valid")  # around the second, third, ... point
    top = int(level.argmax())
    since = 1 - float(curve.epochs[top + 1] / curve.epochs[-1])
    by_noise = _SURE * _roughness(curve) * np.sqrt(2 / _LAST)
    lower = float(level[top] - level[-1]) > by_noise and float(curve.accuracy[-_LAST:].max()) < level[top]
    return float(curve.epochs[top + 1]) if top > 0 and lower and since >= _SOME_TIME else None


def _roughness(curve: LearningCurve) -> float:
    """Return the noise of a curve: the robust deviation of its second differences."""
    bends = np.abs(np.diff(curve.accuracy, n=2))
    return float(1.4826 * np.median(bends) / np.sqrt(6))
