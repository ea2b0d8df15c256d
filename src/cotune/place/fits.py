"""From measured seconds to a profile: closed forms where they fit, the table where they do not.

    seconds(B, k) = f + g B/B0 + h B/(B0 k)       f, g, h >= 0, least squares of relative errors

f does not grow with the batch (affine), h is what units share (Amdahl): compute = f + g + h for B0
examples on one unit, compute_fixed = f, compute_parallel = h / (g + h). What a layer's units say to each
other takes nothing for one unit and something for two, which no such law gives; so the
form of a layer is judged on its whole seconds, and where it is off by more than a tenth, stages that
hold that layer are listed as they were measured, at the counts of units that were measured, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotune.types import Floats

MOST_MISS = 0.1
_MOST_LISTED = 64  # units of a stage whose form fits, where there is no limit


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one layer on one type: `units` of it share a batch, each computes and then synchronises."""

    type: str
    layer: int
    batch: int
    units: int
    compute: float
    sync: float


@dataclass(frozen=True, slots=True)
class Transfer:
    """Seconds that one unit of a type takes for both ways of the cut before a layer."""

    type: str
    layer: int
    batch: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Form:
    """f + g B/B0 + h B/(B0 k), and by how much it is off at worst."""

    fixed: float
    serial: float
    shared: float
    miss: float

    @property
    def whole(self) -> float:
        """Return the seconds for B0 examples on one unit."""
        return self.fixed + self.serial + self.shared

    @property
    def parallel(self) -> float:
        grown = self.serial + self.shared
        return self.shared / grown if grown > 0 else 0.0

    def at(self, units: int) -> float:
        """Return the seconds for B0 examples on so many units."""
        return self.fixed + self.serial + self.shared / units


def fitted(points: Sequence[tuple[float, int, float]]) -> Form:
    """Return the form nearest to (B / B0, units, seconds); a term that nothing tells apart is left out."""
    from scipy.optimize import nnls

    scale, units, seconds = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
    if not seconds.any():
        return Form(0.0, 0.0, 0.0, 0.0)
    several_batches, several_units = np.ptp(scale) > 0, np.ptp(units) > 0
    terms: list[Floats] = [
        np.ones_like(scale) * several_batches,
        scale * several_units,
        scale / units,
    ]
    weight = 1 / np.maximum(seconds, seconds.max() * 1e-6)
    letters, _ = nnls(np.stack(terms, axis=1) * weight[:, None], seconds * weight)
    made = sum(letter * term for letter, term in zip(letters, terms, strict=True))
    fixed, serial, shared = (float(letter) for letter in letters)
    return Form(fixed, serial, shared, float(np.max(np.abs(made * weight - seconds * weight))))


@dataclass(frozen=True)
class Measured:
    """All that was measured of a network; types and layers are written as a profile has them."""

    name: str
    batch: int
    types: Sequence[dict[str, Any]]
    layers: Sequence[dict[str, Any]]
    timings: Sequence[Timing]
    transfers: Sequence[Transfer]
    overlap: bool = False

    def profile(self) -> dict[str, Any]:
        """Return the profile: layers with their forms, and a table of stages if some form misses."""
        layers = [entry | self._letters(place) for place, entry in enumerate(self.layers)]
        known = {"name": self.name, "batch": self.batch, "overlap": self.overlap, "types": list(self.types)}
        missed = [
            {"type": kind, "layer": place, "miss": self.form(kind, place).miss}
            for kind in self._kinds()
            for place in range(len(self.layers))
            if self.form(kind, place).miss > MOST_MISS
        ]
        profile = known | {"layers": layers, "missed": missed}
        return profile | ({"stage_seconds": list(self.table())} if missed else {})

    def form(self, kind: str, layer: int) -> Form:
        """Return the form of a layer's seconds, what its units say to each other included."""
        return fitted(
            [(each.batch / self.batch, each.units, each.compute + each.sync) for each in self._of(kind, layer)]
        )

    def table(self) -> Iterator[dict[str, Any]]:
        """Yield the seconds of every stage: by the forms where all fit, else as measured."""
        for entry in self.types:
            kind = str(entry["name"])
            for first in range(len(self.layers)):
                for last in range(first, len(self.layers)):
                    for units in self._counts(entry, first, last):
                        seconds = self.stage(kind, first, last, units)
                        yield {"type": kind, "first": first, "last": last, "units": units, "seconds": seconds}

    def stage(self, kind: str, first: int, last: int, units: int) -> float:
        """Return the seconds of a stage for one batch."""
        cuts = [cut for cut in (first, last + 1) if 0 < cut < len(self.layers)]
        moved = sum(self.cut(kind, cut) for cut in cuts) / units
        computed = synced = 0.0
        for layer in range(first, last + 1):
            here = [each for each in self._of(kind, layer) if (each.batch, each.units) == (self.batch, units)]
            computed += here[0].compute if here else self.form(kind, layer).at(units)
            synced += here[0].sync if here else 0.0
        return max(computed, synced + moved) if self.overlap else computed + synced + moved

    def cut(self, kind: str, layer: int) -> float:
        """Return the seconds of the cut before a layer."""
        return next(
            each.seconds for each in self.transfers if (each.type, each.layer, each.batch) == (kind, layer, self.batch)
        )

    def _counts(self, entry: dict[str, Any], first: int, last: int) -> list[int]:
        kind, limit = str(entry["name"]), entry.get("limit") or _MOST_LISTED
        if all(self.form(kind, layer).miss <= MOST_MISS for layer in range(first, last + 1)):
            return list(range(1, limit + 1))
        return sorted({each.units for each in self._of(kind, first) if each.batch == self.batch})

    def _letters(self, layer: int) -> dict[str, list[float]]:
        """Return a layer's fields of the profile, one number per type."""
        compute, sync, cut = [], [], []
        for kind in self._kinds():
            mine = self._of(kind, layer)
            compute.append(fitted([(each.batch / self.batch, each.units, each.compute) for each in mine]))
            several = [each for each in mine if each.units > 1]
            sync.append(fitted([(each.batch / self.batch, each.units, each.sync) for each in several or mine]))
            moved = [each for each in self.transfers if (each.type, each.layer) == (kind, layer)]
            cut.append(
                fitted([(each.batch / self.batch, 1, each.seconds) for each in moved]) if moved else Form(0, 0, 0, 0)
            )
        return {
            "compute": [form.whole for form in compute],
            "compute_fixed": [form.fixed for form in compute],
            "compute_parallel": [form.parallel for form in compute],
            "sync": [form.whole for form in sync],
            "sync_fixed": [form.fixed for form in sync],
            "sync_parallel": [form.parallel for form in sync],
            "cut_before": [form.whole for form in cut],
            "cut_fixed": [form.fixed for form in cut],
        }

    def _kinds(self) -> list[str]:
        return [str(entry["name"]) for entry in self.types]

    def _of(self, kind: str, layer: int) -> list[Timing]:
        return [each for each in self.timings if (each.type, each.layer) == (kind, layer)]
