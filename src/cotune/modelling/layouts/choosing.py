"""Which layout to run: the fastest that should run at all, measured ones by what was measured.

    choose  argmax  speed x p_fits^caution      among layouts with p_fits >= floor; none where there is no such layout

A crash at the start costs minutes, a slow layout the whole training: so caution is less than 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotune.modelling.layouts.predictor import LayoutForecasts, LayoutRows
from cotune.types import Floats, Ints, Mask


@dataclass(frozen=True, slots=True)
class ChoiceConstants:
    """Of the choice; chosen by hand with one model left out in turn."""

    caution: float = 0.25  # power of p_fits
    floor: float = 0.5  # of p_fits


CHOICE = ChoiceConstants()


def scores(rows: LayoutRows, forecasts: LayoutForecasts, tried: Ints, constants: ChoiceConstants = CHOICE) -> Floats:
    """Return how good every layout is expected to be: sequences a second, less where it may crash, 0 where it should.

    Of `rows` only what is in `tried` is looked at: a measured layout counts as measured, a crashed one is out.
    """
    batch = rows.layouts.global_batch
    expected = batch * forecasts.rate * forecasts.p_fits**constants.caution
    found = np.where(forecasts.p_fits >= constants.floor, expected, 0.0)
    found[tried] = np.where(rows.ran[tried], batch[tried] / rows.seconds[tried], 0.0)
    return found


def choose(found: Floats, among: Mask) -> int | None:
    """Return the place of the best of these, of equal ones the last (the later try); None where all score 0."""
    places = np.flatnonzero(among)[::-1]
    if not len(places) or found[places].max() <= 0:
        return None
    return int(places[np.argmax(found[places])])
