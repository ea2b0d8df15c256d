"""The fewest units that make stages fast enough, for many times tau at once.

A search needs only one thing of the seconds e(k) of a stage: for a time tau the first k with
e(k) <= tau, and the two neighbouring values of e around tau. e is compared with tau in the same
floating-point expression that made tau, so a plan's own bottleneck always fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cotune.placement.paths import Edges
from cotune.types import Floats, Ints, Mask


class Around(NamedTuple):
    """For some taus: the fewest units of every stage, and the nearest seconds that some stage can take."""

    units: Floats  # (edges, taus), infinite where no number of units is enough
    seconds: Floats  # (edges, taus) what each stage takes with these
    work: Floats  # (edges, taus) the least units x seconds of a stage within tau, infinite where there is none
    below: Floats  # (taus,) the greatest e(k) <= tau
    above: Floats  # (taus,) the least e(k) > tau


@dataclass(frozen=True, slots=True)
class ClosedFormUnits:
    """Counts the units of closed forms; the numbers are those of Amdahl, one per edge."""

    edges: Edges
    serial: Floats  # (terms, edges)
    shared: Floats  # (terms, edges)
    least: Floats
    cap: Floats
    fastest: Floats

    def only(self, keep: Mask) -> Counting:
        """Return what counts the units of fewer edges."""
        serial, shared = self.serial[:, keep], self.shared[:, keep]
        return ClosedFormUnits(
            self.edges.only(keep), serial, shared, self.least[keep], self.cap[keep], self.fastest[keep]
        )

    def around(self, taus: Floats) -> Around:
        """Return the fewest units for each tau, all at once."""
        cap, least = self.cap[:, None], self.least[:, None]
        units = np.broadcast_to(least, (len(self.edges), len(taus)))
        with np.errstate(divide="ignore", invalid="ignore"):
            for serial, shared in zip(self.serial[:, :, None], self.shared[:, :, None], strict=True):
                room = taus - serial
                need = np.ceil(shared / room)
                need[~(room > 0)] = np.inf
                need[(room == 0) & (shared == 0)] = 1.0
                units = np.maximum(units, need)
            # A quotient that is off by one ulp is off by one unit: check against e itself.
            at = self._seconds(units)
            while (slow := (units <= cap) & (at > taus)).any():
                units = units + slow
                at = self._seconds(units)
            before = self._slower(units)
            if (quick := before <= taus).any():
                units = units - quick
                at, before = self._seconds(units), self._slower(units)
        never = units > cap
        below = np.where(never, -np.inf, at).max(axis=0, initial=-np.inf)
        above = np.where(never, self.fastest[:, None], before).min(axis=0, initial=np.inf)
        units = np.where(never, np.inf, units)
        work = np.where(never, np.inf, units * at)  # k e(k) never falls with k
        return Around(units, at, work, below, above)

    def _seconds(self, units: Floats) -> Floats:
        seconds: Floats = self.serial[0, :, None] + self.shared[0, :, None] / units
        for serial, shared in zip(self.serial[1:, :, None], self.shared[1:, :, None], strict=True):
            seconds = np.maximum(seconds, serial + shared / units)
        return seconds

    def _slower(self, units: Floats) -> Floats:
        """Return the seconds with one unit fewer, infinite where there must not be fewer."""
        return np.where(units > self.least[:, None], self._seconds(units - 1.0), np.inf)


@dataclass(frozen=True, slots=True)
class TabulatedUnits:
    """Looks units up in a table."""

    edges: Edges
    counts: Floats
    falling: Floats  # (edges, options) the least seconds with so many units or fewer

    @property
    def fastest(self) -> Floats:
        return self.falling[:, -1]

    def only(self, keep: Mask) -> Counting:
        return TabulatedUnits(self.edges.only(keep), self.counts, self.falling[keep])

    def around(self, taus: Floats) -> Around:
        option = (self.falling[:, None] > taus[:, None]).sum(axis=2)
        most = len(self.counts)
        never = option == most
        own = np.arange(len(self.edges))[:, None]
        at = self.falling[own, np.minimum(option, most - 1)]
        before = self.falling[own, np.maximum(option - 1, 0)]
        units = np.where(never, np.inf, self.counts[np.minimum(option, most - 1)])
        below = np.where(never, -np.inf, at).max(axis=0, initial=-np.inf)
        above = np.where(option > 0, before, np.inf).min(axis=0, initial=np.inf)
        left = np.minimum.accumulate((self.counts * self.falling)[:, ::-1], axis=1)[:, ::-1]
        work = np.where(never, np.inf, left[own, np.minimum(option, most - 1)])
        return Around(units, at, work, below, above)


Counting = ClosedFormUnits | TabulatedUnits  # what counts the units of some stages, the edges of paths


def reachable(mask: Mask, depth: int) -> tuple[Edges, tuple[Ints, Ints]]:
    """Return the edges where a mask of (types, stages) holds, and where each lies in such an array."""
    kinds, places = np.nonzero(mask)
    lasts = np.repeat(np.arange(depth), np.arange(1, depth + 1))[places]
    order = np.lexsort((kinds, lasts))
    kinds, places, lasts = kinds[order], places[order], lasts[order]
    return Edges(depth, len(mask), kinds, places - lasts * (lasts + 1) // 2, lasts), (kinds, places)
