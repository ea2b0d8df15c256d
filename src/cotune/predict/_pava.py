"""Monotone curves of one factor, by pooling adjacent violators (PAVA).

    min  sum_i w_i (y_i - x_i)^2    with  x_1 <= x_2 <= ... <= x_n

Walk through y; whenever a block is lower than the one before it, merge the two into
their weighted mean. A curve that first rises and then falls is two monotone pieces
around its peak, the peak being where the two together fit best.

Reference: Mair, Hornik and de Leeuw, Isotone optimization in R, Journal of Statistical Software 32(5), 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cotune.types import Floats

Shape = Literal["rising", "falling", "peak", "valley"]


def pava(y: Floats, weights: Floats) -> Floats:
    """Return the non-decreasing sequence nearest to y in weighted squares."""
    means: list[float] = []
    masses: list[float] = []
    sizes: list[int] = []
    for value, weight in zip(y.tolist(), weights.tolist(), strict=True):
        mean, mass, size = value, weight, 1
        while means and means[-1] >= mean:
            before = masses.pop()
            mean = (means.pop() * before + mean * mass) / (before + mass)
            mass += before
            size += sizes.pop()
        means.append(mean)
        masses.append(mass)
        sizes.append(size)
    return np.repeat(np.array(means, dtype=np.float64), sizes)


@dataclass(frozen=True, slots=True)
class Line:
    """A curve through some points, straight between them and flat outside."""

    x: Floats
    y: Floats

    def __call__(self, at: Floats) -> Floats:
        return np.interp(at, self.x, self.y)


def monotone(x: Floats, y: Floats, shape: Shape) -> Line:
    """Return the curve of that shape nearest to the points; equal x are averaged first."""
    places, index, counts = np.unique(x, return_inverse=True, return_counts=True)
    weights = counts.astype(np.float64)
    means = np.bincount(index, y) / weights
    turn = -1.0 if shape in ("falling", "valley") else 1.0
    fit = _peak if shape in ("peak", "valley") else pava
    return Line(places, turn * fit(turn * means, weights))


def _peak(y: Floats, weights: Floats) -> Floats:
    """Return the nearest sequence that rises up to some place and falls after it."""
    best, least = y, np.inf
    for top in range(1, len(y) + 1):
        rise = pava(y[:top], weights[:top])
        fall = pava(y[top:][::-1], weights[top:][::-1])[::-1]
        candidate = np.concatenate([rise, fall])
        error = float(weights @ (y - candidate) ** 2)
        if error < least:
            best, least = candidate, error
    return best
