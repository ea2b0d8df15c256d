"""The family of learning curves, in values that rise.

    y(B, e) = A - g h(v) / h(v1) - g R ln(1 + (v / q)^2) / 2 - c g (h(v) / h(v1))^f rate + level + noise
    h(v)    = (1 + (v / tau)^k / p)^-p                    Burr: a power law (k = 1), Weibull (p large), Hill (p = 1)
    v       = progress exp(pace) pace(B0) / pace(B)       pace(B) = 1 + B / Bc + Bd / B

A: what training ends at. g: what is left to learn at the first evaluation, v1. R, q: over-fitting from progress q on.
c, f: what annealing gains, realised as the rate falls, and how that fades as less is left to learn (Tissue et al. 2024,
Luo et al. 2025). `schedules.py` has progress and rate.

Random effects, Gaussian given the parameters:

    run     a constant pace, a wandering one, a constant level
    batch   pace and level, Ornstein-Uhlenbeck in ln B
    law     what all runs deviate from the formula, in pace and level: Matern in ln epochs
    length  what annealing gains more in runs of one length than of another
    noise   of each evaluation, in level and in pace (jitter)

Those of a run, and noise, shrink as its rate falls: seeds of annealed runs end within a tenth of what they differ by
on their way. A level is a share of g where much is still learnt, and less where the curve is flat.
"""

from __future__ import annotations

import numpy as np

from cotune.predict.learning.observations import Observations
from cotune.types import Floats, Ints

NAMES = (
    *("rise", "tau", "k", "p", "critical", "small", "turn", "turn_at", "anneal", "fade"),
    *("batch_pace", "batch_level", "run_pace", "run_level", "run_wander", "law_pace", "law_level", "length_level"),
    *("noise", "jitter", "calm"),
)
EFFECTS = (  # the name of each random effect's deviation, the kernel it follows, and what it moves
    ("law_pace", "law", "pace"),
    ("batch_pace", "batch", "pace"),
    ("run_pace", "run", "run_pace"),
    ("run_wander", "wander", "run_pace"),
    ("law_level", "law", "level"),
    ("batch_level", "batch", "level"),
    ("run_level", "run", "run_level"),
    ("length_level", "length", "annealed"),
)
_FLAT = 0.01  # of g for each ln epoch: slopes below it are flat
_MOST_PACE = 4.0  # of ln progress: no run is faster or slower
_LEAST_SEEN = 1e-6  # of the fall of h over what was seen


class Curves:
    """The formula for many vectors of parameters (rows of theta, columns as NAMES), given what was seen."""

    def __init__(self, theta: Floats, shape: Ints, seen: Observations) -> None:
        column = {name: theta[:, place, None] for place, name in enumerate(NAMES)}
        self.scale_of = {name: np.exp(column[name]) for name in NAMES[10:]}
        self.shape = shape
        self.tau = np.exp(column["tau"] + seen.first)
        self.k, self.p = np.exp(column["k"]), np.exp(column["p"])
        self.critical = np.exp(column["critical"] + seen.usual_critical)
        self.small = np.exp(column["small"] + seen.middle_batch)
        self.turn, self.turn_at = np.exp(column["turn"]), np.exp(column["turn_at"]) * self.tau
        self.anneal, self.fade = np.exp(column["anneal"]), 1 / (1 + np.exp(-column["fade"]))
        self.middle_pace = self._pace(np.array([np.exp(seen.middle_batch)]))
        self.at_first = self._h(np.exp(np.full((1, 1), seen.first)))
        ln_batch, ln_progress = seen.rise
        fallen = self._h(self.progress(ln_batch, ln_progress[shape])) / self.at_first
        self.unit = seen.scale / np.maximum(np.ptp(fallen, axis=1), _LEAST_SEEN)[:, None]
        self.g = np.exp(column["rise"]) * self.unit

    def progress(self, ln_batch: Floats, ln_progress: Floats, pace: Floats | float = 0.0) -> Floats:
        """Return v, the progress in epochs of the middle batch."""
        bounded = np.clip(pace, -_MOST_PACE, _MOST_PACE)
        return np.asarray(np.exp(ln_progress + bounded) * self.middle_pace / self._pace(np.exp(ln_batch)))

    def values(self, progress: Floats, rate: Floats) -> Floats:
        """Return y - A without random effects."""
        left = self._h(progress) / self.at_first
        turned = self.turn * 0.5 * np.log1p((progress / self.turn_at) ** 2)
        annealed_later = self.anneal * rate * left**self.fade
        return np.asarray(-self.g * (left + turned + annealed_later))

    def slope(self, progress: Floats) -> Floats:
        """Return dy / d ln v."""
        ratio = (progress / self.tau) ** self.k
        turned = (progress / self.turn_at) ** 2
        learning = self.k * ratio / (1 + ratio / self.p) * self._h(progress) / self.at_first
        return np.asarray(self.g * (learning - self.turn * turned / (1 + turned)))

    def calm(self, rate: Floats) -> Floats:
        """Return by how much runs differ, relative to how much they do at their peak rate."""
        return np.asarray(np.exp(-self.scale_of["calm"] * (1 - rate)))

    def loads(self, slope: Floats, rate: Floats) -> dict[str, Floats]:
        """Return by how much the value moves for one unit of each thing that effects move, at places of some slope."""
        calm = self.calm(rate)
        return {
            "pace": slope,
            "run_pace": calm * slope,
            "level": np.sqrt(self.g * (np.abs(slope) + _FLAT * self.g)),
            "run_level": calm * self.g * self.scale_of["noise"],
            "annealed": (1 - rate) * self.g * self.scale_of["noise"],
        }

    def noise(self, slope: Floats, rate: Floats) -> Floats:
        """Return the variance of one evaluation."""
        level, pace = self.g * self.scale_of["noise"], self.scale_of["jitter"] * slope
        return np.asarray(self.calm(rate) ** 2 * (level**2 + pace**2))

    def _h(self, progress: Floats) -> Floats:
        return np.asarray(np.exp(-self.p * np.log1p((progress / self.tau) ** self.k / self.p)))

    def _pace(self, batch: Floats) -> Floats:
        return np.asarray(1 + batch / self.critical + self.small / batch)
