"""Which layout to run, and which ones to measure before.

    run      argmax  speed x p_fits^caution      among layouts with p_fits >= floor, measured ones as measured
    measure  argmax  p_fits^caution x (speed / best speed of its number of devices)^power x novelty
    explore  argmax  sum_j w_j cov(i, j)^2 / (var_i + noise^2)     w_j = (speed_j / best of its number of devices)^power

A crash at the start costs minutes, a slow layout the whole training: so caution is less than 1. What is measured should
be likely to be among the fastest somewhere, and unlike what was measured: novelty is the residual process's own doubt,
so a twin of a measured layout is worth little. A crash costs as much as a run, and shows only that it crashed. On a
unknown machine (explore) nothing can be said yet of what is fast: the next layout is the one that takes away
most of the doubt over all forecasts, those of faster ones counting more. The covariance is that of the law's
coefficients, carried to layouts, and of what the law misses; after each choice it is that given the choice.
"""

from __future__ import annotations

import numpy as np

from cotune.modelling.layouts.layout import LayoutRows, Layouts
from cotune.modelling.layouts.predictor import LayoutForecasts
from cotune.modelling.layouts.residual import similarity
from cotune.types import Floats, Ints, Mask

# Those of exploring are set by hand, the others so with one model left out in turn.
_CAUTION = 0.25  # power of p_fits
FLOOR = 0.5  # of p_fits
_MEASURED_CAUTION = 0.6
_MEASURED_POWER = 2.0  # of the speed relative to the best
_EXPLORED_POWER = 0.5
_EXPLORED_NOISE = 0.1  # of one measurement, as a deviation of its logarithm
MOST_EXPLORED = 400  # layouts that are compared


def scores(rows: LayoutRows, forecasts: LayoutForecasts, tried: Ints) -> Floats:
    """Return how good every layout is expected to be: sequences a second, less where it may crash, 0 where it should.

    Of `rows` only what is in `tried` is looked at: a measured layout counts as measured, a crashed one is out.
    """
    found = expected_scores(rows.layouts, forecasts)
    found[tried] = np.where(rows.ran[tried], rows.layouts.global_batch[tried] / rows.seconds[tried], 0.0)
    return found


def expected_scores(layouts: Layouts, forecasts: LayoutForecasts) -> Floats:
    """Return the same where nothing was measured."""
    expected = layouts.global_batch / forecasts.seconds[:, 1] * forecasts.p_fits**_CAUTION
    return np.where(forecasts.p_fits >= FLOOR, expected, 0.0)


def choose(found: Floats, among: Mask) -> int | None:
    """Return the place of the best of these, of equal ones the last (the later try); None where all score 0."""
    places = np.flatnonzero(among)[::-1]
    if not len(places) or found[places].max() <= 0:
        return None
    return int(places[np.argmax(found[places])])


def next_to_measure(
    forecasts: LayoutForecasts, layouts: Layouts, points: Floats, tried: Ints, *, groups: Ints | None = None
) -> int | None:
    """Return the place of the layout to measure next, or None when all were tried.

    Speeds are compared inside a group: of equal numbers of devices where no other groups are given.
    """
    left = np.setdiff1d(np.arange(len(layouts)), tried)
    if not len(left):
        return None
    speed = layouts.global_batch / forecasts.seconds[:, 1] / layouts.gpus
    careful = forecasts.p_fits**_MEASURED_CAUTION
    best = _best_of_group(speed * careful, layouts.gpus if groups is None else groups)
    worth = careful * np.minimum(speed / np.maximum(best, 1e-12), 1.0) ** _MEASURED_POWER
    if len(tried):
        worth = worth * (1 - similarity(points, points[tried]).max(axis=1))
    return int(left[np.argmax(worth[left])])


def compared(seconds: Floats, possible: Ints) -> Ints:
    """Return the layouts to explore of those possible: all, or the fastest and as many others, evenly spaced."""
    half = MOST_EXPLORED // 2
    if len(possible) <= 2 * half:
        return possible
    order = possible[np.argsort(seconds[possible], kind="stable")]
    others = order[half:]
    return np.concatenate([order[:half], others[np.linspace(0, len(others) - 1, half).astype(np.int64)]])


def most_telling(covariance: Floats, speed: Floats, groups: Ints, count: int) -> list[int]:
    """Return the places of the layouts with the largest information gain; speeds are compared inside a group."""
    weights = (speed / _best_of_group(speed, groups)) ** _EXPLORED_POWER
    left, chosen = covariance.copy(), list[int]()
    for _ in range(min(count, len(speed))):
        variance = np.diag(left) + _EXPLORED_NOISE**2
        gains = weights @ left**2 / variance
        gains[chosen] = -np.inf
        place = int(np.argmax(gains))
        chosen.append(place)
        left = left - np.outer(left[:, place], left[place]) / variance[place]
    return chosen


def _best_of_group(speed: Floats, groups: Ints) -> Floats:
    names, which = np.unique(groups, return_inverse=True)
    best = np.zeros(len(names))
    np.maximum.at(best, which, speed)
    return best[which]
