"""What a learning curve tells of its own end: that it collapsed, has turned, or stands at a bound.

collapsed   it ends far below where it had been, and got there at once: its run diverged, and another may not
turned      for some time its evaluations have been lower than around its best, by more than their noise: a network that
            learns its examples by heart gets worse on others, and does not come back by itself
bound       evaluations of a job have shown the same best value several times, to the last digit, and no other value so
            often: a reward that cannot pass 200, a solved task
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from cotune.predict.samples import CURVES, LearningCurve, by_global_batch
from cotune.types import Floats, Job

# Written with the curves of `benchmarks/reach.py` in sight, overfitting networks among them; no source was left out.
_LAST = 3  # evaluations at the end that must all lie below
_SURE = 3.0  # deviations of a mean of three by which a curve must have fallen
_SOME_TIME = 0.2  # of the epochs trained that have passed since the best
_AT_ONCE = 0.5  # of what was lost, from one evaluation to the next: a run that diverged
_NAMED = 3  # batches that are listed
_TIES = 3  # evaluations that show a bound, and how many times as often as any other value


@lru_cache(CURVES)
def fallen(curve: LearningCurve, share: float) -> bool:
    """Return whether a curve ends far below where it had been, and did not get there by noise."""
    if len(curve.epochs) < 3:
        return False
    top = int(curve.accuracy.argmax())
    best = float(curve.accuracy[top])
    rise = best - float(curve.accuracy.min())
    end = float(curve.accuracy[-2:].max())
    return top > 0 and best - end > max(share * rise, 4 * roughness(curve))


@lru_cache(CURVES)
def collapsed(curve: LearningCurve, share: float) -> bool:
    """Return whether a curve has fallen all at once: another run of its recipe may not."""
    steps = -np.diff(curve.accuracy)
    lost = float(curve.accuracy.max() - curve.accuracy[-2:].max())
    return fallen(curve, share) and float(steps.max()) >= _AT_ONCE * lost


@lru_cache(CURVES)
def roughness(curve: LearningCurve) -> float:
    """Return the noise of a curve: the robust deviation of its second differences."""
    if len(curve.accuracy) < 4:
        return 0.0
    bends = np.abs(np.diff(curve.accuracy, n=2))
    return float(1.4826 * np.median(bends) / np.sqrt(6))


@lru_cache(CURVES)
def turn(curve: LearningCurve) -> float | None:
    """Return the epoch from which a curve has got worse by and by, if it has."""
    if len(curve.epochs) < 2 * _LAST:
        return None
    level = np.convolve(curve.accuracy, np.ones(_LAST) / _LAST, mode="valid")  # around the second, third, ... point
    top = int(level.argmax())
    since = 1 - float(curve.epochs[top + 1] / curve.epochs[-1])
    by_noise = _SURE * roughness(curve) * np.sqrt(2 / _LAST)
    lower = float(level[top] - level[-1]) > by_noise and float(curve.accuracy[-_LAST:].max()) < level[top]
    return float(curve.epochs[top + 1]) if top > 0 and lower and since >= _SOME_TIME else None


@lru_cache(CURVES)
def before_turn(curve: LearningCurve, share: float, *, turns: bool) -> LearningCurve:
    """Return a curve up to where it collapsed or, where that may be, turned."""
    if fallen(curve, share):
        last = int(curve.accuracy.argmax()) + 1
    elif turns and (place := turn(curve)) is not None:
        last = int(np.searchsorted(curve.epochs, place)) + 2
    else:
        return curve
    return LearningCurve(curve.global_batch, curve.batch_size, curve.epochs[:last], curve.accuracy[:last])


def shown_bound(found: Sequence[LearningCurve]) -> float:
    """Return the value that evaluations show again and again and never pass; infinite where there is none.

    A curve that begins there has not risen to it: it may be stuck.
    """
    values = np.concatenate([curve.accuracy for curve in found])
    best = float(values.max())
    shown = Counter(values.tolist())
    others = max((count for value, count in shown.items() if value != best), default=0)
    risen = any(_rises_to(curve.accuracy, best) for curve in found)
    return best if risen and shown[best] >= _TIES * max(1, others) else np.inf


def longest(same: Sequence[LearningCurve]) -> LearningCurve:
    """Return which curve tells the end of a batch: a shorter one may have been about to rise."""
    return max(same, key=lambda curve: float(curve.epochs[-1]))


def end_words(job: Job, found: Sequence[LearningCurve]) -> str:
    """Return in words what curves tell of their end, if anything."""
    batches = by_global_batch(found).items()
    turns = {batch: place for batch, same in batches if (place := turn(longest(same))) is not None}
    told = [f"a global batch of {batch} gets worse after epoch {turns[batch]:.3g}" for batch in sorted(turns)[:_NAMED]]
    if len(turns) > _NAMED:
        told.append(f"so do {len(turns) - _NAMED} more")
    if np.isfinite(bound := shown_bound(found)):
        told.append(f"{job.metric} came to {job.sign * bound:.6g} again and again, and is not expected beyond it")
    return "; ".join(told)


def _rises_to(accuracy: Floats, best: float) -> bool:
    """Return whether a curve shows some lower values before a best one."""
    first = np.flatnonzero(accuracy == best)[:1]
    return len(first) > 0 and len(set(accuracy[: first[0]].tolist())) >= _TIES
