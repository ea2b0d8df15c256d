"""Which layouts to measure on a machine that nobody knows: those that tell most of all the others.

    gain(i) = sum_j w_j cov(i, j)^2 / (var_i + noise^2)     w_j = (speed_j / best speed of its number of devices)^power

Nothing can be said yet of what is fast, so the next layout is the one whose measurement takes away most of the doubt
over all forecasts, those of faster layouts counting more. The covariance is that of the law's coefficients, carried to
layouts, and of what the law misses; after each choice it is that given the choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotune.types import Floats, Ints


@dataclass(frozen=True, slots=True)
class ExploringConstants:
    """Of the choice, set by hand."""

    power: float = 0.5  # of the speed relative to the best
    noise: float = 0.1  # of one measurement, as a deviation of its logarithm
    most: int = 400  # layouts that are compared


EXPLORING = ExploringConstants()


def compared(seconds: Floats, possible: Ints) -> Ints:
    """Return the layouts to compare of those possible: all, or the fastest and as many others, evenly spaced."""
    half = EXPLORING.most // 2
    if len(possible) <= 2 * half:
        return possible
    order = possible[np.argsort(seconds[possible], kind="stable")]
    others = order[half:]
    return np.concatenate([order[:half], others[np.linspace(0, len(others) - 1, half).astype(np.int64)]])


def most_telling(covariance: Floats, speed: Floats, groups: Ints, count: int) -> list[int]:
    """Return the places of the layouts that tell most, one after another; speeds are compared inside a group."""
    best = np.zeros(groups.max(initial=0) + 1)
    np.maximum.at(best, groups, speed)
    weights = (speed / best[groups]) ** EXPLORING.power
    left, chosen = covariance.copy(), list[int]()
    for _ in range(min(count, len(speed))):
        variance = np.diag(left) + EXPLORING.noise**2
        gains = weights @ left**2 / variance
        gains[chosen] = -np.inf
        place = int(np.argmax(gains))
        chosen.append(place)
        left = left - np.outer(left[:, place], left[place]) / variance[place]
    return chosen
