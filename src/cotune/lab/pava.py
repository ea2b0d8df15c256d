"""Monotone curves of one factor, by pooling adjacent violators (PAVA).

    min  sum_i w_i (y_i - x_i)^2    with  x_1 <= x_2 <= ... <= x_n

A curve that first rises and then falls is two monotone pieces around its peak, the peak
being where the two together fit best. Where that is needs the errors of all pieces: one walk
through y in which a block that is lower than the one before it is merged with it into their
weighted mean.

Reference: Mair, Hornik and de Leeuw, Isotone optimization in R, Journal of Statistical Software 32(5), 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import isotonic_regression

from cotune.types import Floats

Shape = Literal["rising", "falling", "peak", "valley"]


def pava(y: Floats, weights: Floats) -> Floats:
    """Return the non-decreasing sequence nearest to y in weighted squares."""
    fitted: Floats = isotonic_regression(y, weights=weights).x if len(y) else y
    return fitted


@dataclass(frozen=True, slots=True)
class Polyline:
    """A curve through some points, straight between them and flat outside."""

    x: Floats
    y: Floats

    def __call__(self, at: Floats) -> Floats:
        return np.interp(at, self.x, self.y)


def monotone(x: Floats, y: Floats, shape: Shape) -> Polyline:
    """Return the curve of that shape nearest to the points; equal x are averaged first."""
    places, index, counts = np.unique(x, return_inverse=True, return_counts=True)
    weights = counts.astype(np.float64)
    means = np.bincount(index, y) / weights
    turn = -1.0 if shape in ("falling", "valley") else 1.0
    fit = _peak if shape in ("peak", "valley") else pava
    return Polyline(places, turn * fit(turn * means, weights))


def _peak(y: Floats, weights: Floats) -> Floats:
    """Return the nearest sequence that rises up to some place and falls after it."""
    rising = squared_errors(y, weights)[1:]
    falling = squared_errors(y[::-1], weights[::-1])[::-1][1:]
    top = int(np.argmin(rising + falling)) + 1
    return np.concatenate([pava(y[:top], weights[:top]), pava(y[top:][::-1], weights[top:][::-1])[::-1]])


def squared_errors(y: Floats, weights: Floats) -> Floats:
    """Return the squared error that `pava` leaves on the first 0, 1, 2, ... places, in one walk."""
    blocks: list[tuple[float, float]] = []  # mean and mass
    errors = [0.0]
    for value, weight in zip(y.tolist(), weights.tolist(), strict=True):
        mean, mass, error = value, weight, errors[-1]
        while blocks and blocks[-1][0] >= mean:
            other, before = blocks.pop()
            # Merging two blocks moves both to their common mean.
            error += before * mass / (before + mass) * (other - mean) ** 2
            mean = (other * before + mean * mass) / (before + mass)
            mass += before
        blocks.append((mean, mass))
        errors.append(error)
    return np.array(errors)
