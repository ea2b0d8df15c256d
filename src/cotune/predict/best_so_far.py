"""The best of all evaluations so far, which meets a target: how far apart it is between runs."""

from __future__ import annotations

import numpy as np

from cotune.types import Z90, Floats, Ints

EARLY = 0.5  # of the epochs to the first evaluation


def apart(median: Floats, early: Floats, pace: Floats) -> tuple[Floats, Floats]:
    """Return how far the best so far of each recipe is from that of a run slower, and quicker, by a deviation.

    What the law expects `early`, on the way to the first evaluation, tells how steep the curve is before that.
    """
    law = np.maximum.accumulate(np.hstack([early, median]), axis=1)
    logs = np.log([EARLY, *range(1, law.shape[1])])
    own, whole = law[:, 1:], logs[1:]
    # One deviation being as far as nine runs in ten are from the median, over what these are: curves are not straight.
    slower, quicker = (_at(law, logs, whole + luck * pace[:, None]) for luck in (-Z90, Z90))
    return (own - slower) / Z90, (quicker - own) / Z90


def _at(law: Floats, logs: Floats, wanted: Floats) -> Floats:
    """Return the rows of a law at other places than its own, straight between these and after the last."""
    place = np.clip(np.searchsorted(logs, wanted), 1, len(logs) - 1)
    low, high = (np.take_along_axis(law, near, axis=1) for near in (place - 1, place))
    return np.asarray(low + (wanted - logs[place - 1]) / (logs[place] - logs[place - 1]) * (high - low))


def on_plateau(median: Floats, noise: Floats) -> Ints:
    """Return for each epoch how many evaluations so far lay within the noise of it, itself included."""
    best = np.maximum.accumulate(median, axis=1)
    before = np.array([np.searchsorted(curve, least) for curve, least in zip(best, best - noise[:, None], strict=True)])
    return np.asarray(np.maximum(np.arange(1, best.shape[1] + 1) - before, 1), dtype=np.int64)
