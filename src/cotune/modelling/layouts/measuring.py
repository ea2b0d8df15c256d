"""Which layouts to measure: likely to be among the fastest somewhere, and unlike those measured.

The next layout is the one with the largest   p_fits x (speed / best speed of its number of devices)^power x novelty
novelty is the residual process's own doubt, so a twin of a measured layout is worth little. One that crashed costs as
much as one that ran, and tells only that it crashed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotune.modelling.layouts.layout import Layouts
from cotune.modelling.layouts.predictor import LayoutForecasts
from cotune.modelling.layouts.residual import alike
from cotune.types import Floats, Ints


@dataclass(frozen=True, slots=True)
class NextLayoutConstants:
    """Of the choice of what to measure next; chosen by hand with one model left out in turn."""

    power: float = 2.0  # of the speed relative to the best
    caution: float = 0.6  # power of p_fits
    sameness: float = 1.0  # power of how unlike measured layouts are


MEASURING = NextLayoutConstants()


def next_to_measure(
    forecasts: LayoutForecasts,
    layouts: Layouts,
    points: Floats,
    tried: Ints,
    constants: NextLayoutConstants = MEASURING,
    *,
    groups: Ints | None = None,
) -> int | None:
    """Return the place of the layout to measure next, or None when all were tried.

    Speeds are compared inside a group: of equal numbers of devices where no other groups are given.
    """
    left = np.setdiff1d(np.arange(len(layouts)), tried)
    if not len(left):
        return None
    speed = layouts.global_batch * forecasts.rate / layouts.gpus
    counts, which = np.unique(layouts.gpus if groups is None else groups, return_inverse=True)
    fastest = np.zeros(len(counts))
    np.maximum.at(fastest, which, speed * forecasts.p_fits**constants.caution)
    best = fastest[which]
    worth = forecasts.p_fits**constants.caution * np.minimum(speed / np.maximum(best, 1e-12), 1.0) ** constants.power
    if len(tried):
        worth = worth * (1 - alike(points, points[tried]).max(axis=1)) ** constants.sameness
    return int(left[np.argmax(worth[left])])
