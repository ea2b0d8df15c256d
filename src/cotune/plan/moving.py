"""Which config a run should go on with, while what it needs is not known yet.

For every hypothesis h of what the rest of the way takes, and every config c it may go on with:

    rest(h, c)  = epochs left x epoch_seconds          and its cost
    the run learns h on the way: after a share f of the rest, but not before its next evaluation, it may change once
    more, to the cheapest config that still comes in time; where none does it is late, whatever it spends until then

    score(c) = sum over h of weight x [ (sunk + cost(h, c)) / (sunk + least(h)) + penalty x late(h, c) ]

least(h) is what h costs at least from here on, sunk what was paid so far: what can still be saved is less and less
beside what a late run has lost. Planning as if h were never learnt would pay for the slowest case
from the beginning; as if it were known at once, would begin with the cheapest and come late.
A move pays when the score falls by more than a margin: scores of the next evaluation differ by chance. Each move so far
asks for as much again, or a run goes to and fro.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotune.types import Floats, Ints


@dataclass(frozen=True, slots=True)
class MovingConstants:
    """How a run that measures itself weighs cost against lateness."""

    learnt: float = 0.5  # share of the rest after which a run knows what it needs
    penalty: float = 6.0  # for being late, in least costs
    margin: float = 0.08  # by which the score must fall for the first move
    whole: float = 0.5  # epochs that waiting for a whole one adds
    looks: float = 1.0  # evaluations before a change can come


CONSTANTS = MovingConstants()
_TINY = 1e-12


@dataclass(frozen=True)
class Prospect:
    """What every config promises for the rest of a run."""

    score: Floats  # (c,) the less the better
    odds: Floats  # (c,) chance to be in time if the run may still change
    stays: Floats  # (c,) chance to be in time with this config alone
    cost: Floats  # (c,) usual cost of the rest, staying

    def spread_out(self, rows: Ints, count: int) -> Prospect:
        """Return the prospects of so many configs; those that were not weighed promise nothing."""
        every = [np.full(count, empty) for empty in (np.inf, 0.0, 0.0, np.inf)]
        for column, values in zip(every, (self.score, self.odds, self.stays, self.cost), strict=True):
            column[rows] = values
        return Prospect(*every)


def prospects(
    weights: Floats,
    epochs: Floats,
    pace: Floats,
    rate: Floats,
    *,
    time_left: float,
    begin: Floats,
    step: Floats | float = 1.0,
    sunk: float = 0.0,
    constants: MovingConstants = CONSTANTS,
) -> Prospect:
    """Return what each config promises.

    `epochs` (h, c) are left in each hypothesis, `pace` (c,) or (h, c) seconds each, `rate` (c,) the cost of a second,
    `begin` (c,) the seconds before the first step: what starting or moving takes, `step` the epochs between
    evaluations, `sunk` what the run has cost so far.
    """
    share = np.maximum(constants.learnt, constants.looks * step / np.maximum(epochs, _TINY))  # (h, c)
    seconds = (epochs + constants.whole) * pace  # (h, c)
    gets_there = np.isfinite(seconds)
    reaching = np.where(gets_there, seconds, 0.0)
    cost = seconds * rate
    order = np.argsort(seconds, axis=1)
    quick = np.take_along_axis(seconds, order, axis=1)
    cheapest = np.minimum.accumulate(np.take_along_axis(cost, order, axis=1), axis=1)
    patience = max(time_left if np.isfinite(time_left) else float(reaching.max()), _TINY)  # what never ends is given up
    least = _cheapest_within(quick, cheapest, np.full((len(seconds), 1), time_left))[:, 0]
    fastest = np.where(np.isfinite(cheapest[:, 0]), cheapest[:, 0], patience * rate.min())
    least = np.maximum(np.where(np.isfinite(least), least, fastest), _TINY)
    changes = gets_there & (share < 1)
    share = np.minimum(share, 1.0)
    allowed = np.where(changes, (time_left - begin - share * reaching) / np.maximum(1 - share, _TINY), -np.inf)
    stays = gets_there & (begin + seconds <= time_left)
    other = _cheapest_within(quick, cheapest, allowed)
    later = np.where(stays, np.minimum(cost, other), other)
    met = np.isfinite(later)
    wasted = np.minimum(patience, begin + seconds) * rate
    spent = share * np.where(met, cost, 0.0) + (1 - share) * np.where(met, later, 0.0) + begin * rate
    total = np.where(met, spent, wasted)
    score = weights @ ((sunk + total) / (sunk + least[:, None]) + constants.penalty * ~met)
    usual = np.exp(weights @ np.log(np.maximum(np.minimum(cost, wasted), _TINY)))  # half of all hypotheses cost less
    return Prospect(score, weights @ met, weights @ stays, usual + begin * rate)


def _cheapest_within(quick: Floats, cheapest: Floats, allowed: Floats) -> Floats:
    """Return the least cost of a rest that takes at most so long, infinite where none does (rows: hypotheses)."""
    within = (quick[:, None, :] <= allowed[:, :, None]).sum(axis=2)
    least = np.take_along_axis(cheapest, np.maximum(within - 1, 0), axis=1)
    return np.where(within > 0, least, np.inf)
