"""Learning-rate schedules: how much of a run has been learnt, and how much of its peak rate is still on.

    progress(e) = integral of rate / peak over the first e epochs
    rate(e)     = rate / peak, which counts as 1 until it first falls

Of some schedules only the kind is known, or nothing at all. They are several shapes, each with a prior probability, and
the evaluations decide between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cotune.types import Floats

_PLACES = 1025  # of a run at which a rate is integrated
_WARM = 0.3  # share of one cycle over which the rate rises, and the share of the peak that it begins with
_START = 0.04
_LEAST = 1e-6  # of a run's length, as the progress of its first steps
_CONSTANT_SHARE = 0.25  # of the runs of which no schedule is known


@dataclass(frozen=True, slots=True)
class Shape:
    """How the rate goes over a run."""

    kind: str
    fall: float = 1.0
    """Share of the run over which the rate falls (wsd) or is lower (step)."""

    floor: float = 0.0
    """Rate at the end, over the peak."""

    def rate(self, share: Floats) -> Floats:
        """Return the rate over its peak after shares of a run."""
        if self.kind == "constant":
            return np.ones_like(share)
        if self.kind == "step":
            return np.where(share < 1 - self.fall, 1.0, self.floor)
        if self.kind == "wsd":
            falling = np.minimum(1.0, (1 - share) / self.fall)
        elif self.kind == "one_cycle":
            rising = _START + (1 - _START) * (1 - np.cos(np.pi * share / _WARM)) / 2
            falling = np.where(share < _WARM, rising, (1 + np.cos(np.pi * (share - _WARM) / (1 - _WARM))) / 2)
        else:
            falling = (1 + np.cos(np.pi * share)) / 2
        return np.asarray(self.floor + (1 - self.floor) * falling)


CONSTANT = Shape("constant")
_WSD = tuple(Shape("wsd", fall) for fall in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0))
_KINDS = {
    "constant": (CONSTANT,),
    "linear": (Shape("wsd"), Shape("wsd", floor=0.1)),
    "cosine": (Shape("cosine"), Shape("cosine", floor=0.1)),
    "one_cycle": (Shape("one_cycle"),),
    "wsd": _WSD,
    "step": tuple(Shape("step", fall, floor) for fall in (0.2, 0.4, 0.6) for floor in (0.1, 0.3, 0.6)),
}
_FALLING = (Shape("cosine"), Shape("cosine", floor=0.1), *_WSD[1:6], *_WSD[7:])


def candidates(schedule: str | None) -> tuple[tuple[Shape, ...], Floats]:
    """Return the shapes that a schedule may have ("cosine", "wsd(0.3)"; None: not known), and their probabilities."""
    if schedule is None:
        falling = np.full(len(_FALLING), (1 - _CONSTANT_SHARE) / len(_FALLING))
        return (CONSTANT, *_FALLING), np.r_[_CONSTANT_SHARE, falling]
    told = re.fullmatch(r"wsd\(([\d.]+)\)", schedule)
    shapes = (Shape("wsd", float(told[1])),) if told else _KINDS[schedule]
    return shapes, np.full(len(shapes), 1 / len(shapes))


def travelled(shape: Shape, epochs: Floats, lengths: Floats) -> tuple[Floats, Floats]:
    """Return ln progress and the rate still on after epochs of runs of some lengths."""
    if shape.kind == "constant":
        return np.log(epochs), np.ones_like(epochs)
    share = np.minimum(epochs / lengths, 1.0)
    places, learnt, rate = _integrated(shape)
    progress = lengths * np.maximum(np.interp(share, places, learnt), _LEAST)
    return np.log(progress), np.interp(share, places, rate)


@lru_cache
def _integrated(shape: Shape) -> tuple[Floats, Floats, Floats]:
    places = np.linspace(0.0, 1.0, _PLACES)
    rate = shape.rate(places)
    learnt = np.r_[0.0, np.cumsum((rate[1:] + rate[:-1]) / 2)] / (_PLACES - 1)
    return places, learnt, np.where(np.arange(_PLACES) < rate.argmax(), 1.0, rate)
