"""From measured seconds to a profile: closed forms where they fit, the table where they do not.

    seconds(B, k) = f + g B/B0 + h B/(B0 k)       f, g, h >= 0, least squares of relative errors

f does not grow with the batch (affine), h is what units share (Amdahl): compute = f + g + h for B0
examples on one unit, compute_fixed = f, compute_parallel = h / (g + h). Layers are measured one at a time
and all together, which takes less: one message instead of many, one pass through the stage's own
code. What is saved at each joint between two layers is

    (sum of the layers - all together) / (layers - 1)

and a stage of n layers takes the sum of its layers less n - 1 such savings. What units say to each other takes
nothing for one unit and something for two, which no form above gives; so stages by the forms are held
against stages as measured, and one that is off by more than a tenth is listed as measured, at the counts
of units that were measured and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cotune.types import Floats

MOST_MISS = 0.1
_MOST_LISTED = 64  # units of a stage whose form fits, where there is no limit
_LEAST_LEFT = 0.05  # of a layer's seconds, however much its joints save


@dataclass(frozen=True, slots=True)
class LayerTiming:
    """Seconds of one layer (None: of all as one stage) on one type, whose `units` share the batch."""

    type: str
    layer: int | None
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

    def at(self, units: int, scale: float = 1.0) -> float:
        """Return the seconds for `scale` x B0 examples on so many units."""
        return self.fixed + scale * (self.serial + self.shared / units)


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
    coefficients, _ = nnls(np.stack(terms, axis=1) * weight[:, None], seconds * weight)
    made = sum(coefficient * term for coefficient, term in zip(coefficients, terms, strict=True))
    fixed, serial, shared = (float(coefficient) for coefficient in coefficients)
    return Form(fixed, serial, shared, float(np.max(np.abs(made * weight - seconds * weight))))


@dataclass(frozen=True)
class MeasuredNetwork:
    """All that was measured of a network; types and layers are written as a profile has them."""

    name: str
    batch: int
    types: Sequence[dict[str, Any]]
    layers: Sequence[dict[str, Any]]
    timings: Sequence[LayerTiming]
    transfers: Sequence[Transfer]
    overlap: bool = False

    def profile(self) -> dict[str, Any]:
        """Return the profile: layers with their forms, and a table of stages if some form misses."""
        layers = [entry | self._letters(place) for place, entry in enumerate(self.layers)]
        known = {"name": self.name, "batch": self.batch, "overlap": self.overlap, "types": list(self.types)}
        missed = [
            {"type": kind, "first": first, "last": last, "miss": miss}
            for kind, first, last in self._stages()
            if (miss := self.miss(kind, first, last)) > MOST_MISS
        ]
        profile = known | {"layers": layers, "missed": missed}
        return profile | ({"stage_seconds": list(self.table())} if missed else {})

    def table(self) -> Iterator[dict[str, Any]]:
        """Yield the seconds of every stage: as measured, and at all other counts by the forms where they fit."""
        limits = {str(entry["name"]): entry.get("limit") or _MOST_LISTED for entry in self.types}
        for kind, first, last in self._stages():
            counts = self._counts(kind)
            fits = self.miss(kind, first, last) <= MOST_MISS
            for units in range(1, limits[kind] + 1) if fits else counts:
                stage = self.stage if units in counts else self.formed
                seconds = stage(kind, first, last, units)
                yield {"type": kind, "first": first, "last": last, "units": units, "seconds": seconds}

    def stage(self, kind: str, first: int, last: int, units: int) -> float:
        """Return the seconds of a stage for one batch, from what was measured with so many units."""
        mine = [self._at(kind, layer, units) for layer in range(first, last + 1)]
        compute, sync = self._saved(kind, self.batch, units)
        computed = sum(each.compute for each in mine) - compute * (last - first)
        synced = sum(each.sync for each in mine) - sync * (last - first)
        # A saving is a mean: a stage takes no less than its largest layer.
        computed, synced = max(computed, *(each.compute for each in mine)), max(synced, *(each.sync for each in mine))
        return self._both(computed, synced + self._moved(kind, first, last) / units)

    def formed(self, kind: str, first: int, last: int, units: int) -> float:
        """Return the seconds of a stage by the forms of its layers."""
        forms = [self._forms[kind, layer] for layer in range(first, last + 1)]
        computed, synced = (sum(each[part].at(units) for each in forms) for part in (0, 1))
        return self._both(computed, synced + self._moved(kind, first, last) / units)

    def miss(self, kind: str, first: int, last: int) -> float:
        """Return by how much the forms of a stage are off at worst."""
        pairs = [(self.formed(kind, first, last, k), self.stage(kind, first, last, k)) for k in self._counts(kind)]
        return max(abs(formed / real - 1) for formed, real in pairs)

    def _both(self, computed: float, communicated: float) -> float:
        return max(computed, communicated) if self.overlap else computed + communicated

    def _moved(self, kind: str, first: int, last: int) -> float:
        """Return the seconds of the two cuts of a stage, on one unit."""
        cuts = [cut for cut in (first, last + 1) if 0 < cut < len(self.layers)]
        mine = [each for each in self.transfers if each.type == kind and each.batch == self.batch]
        return sum(each.seconds for each in mine if each.layer in cuts)

    @cached_property
    def _savings(self) -> dict[tuple[str, int, int], tuple[float, float]]:
        """What every joint between two layers of one stage saves of computing and synchronising: type, batch, units."""
        savings: dict[tuple[str, int, int], tuple[float, float]] = {}
        joints = len(self.layers) - 1
        for whole in self.timings if joints else ():
            if whole.layer is None:
                alone = [self._at(whole.type, layer, whole.units, whole.batch) for layer in range(len(self.layers))]
                compute = (sum(each.compute for each in alone) - whole.compute) / joints
                sync = (sum(each.sync for each in alone) - whole.sync) / joints
                savings[whole.type, whole.batch, whole.units] = compute, sync
        return savings

    def _saved(self, kind: str, batch: int, units: int) -> tuple[float, float]:
        return self._savings.get((kind, batch, units), (0.0, 0.0))

    @cached_property
    def _forms(self) -> dict[tuple[str, int], tuple[Form, Form]]:
        """The forms of computing and synchronising of every layer on every type."""
        return {(kind, layer): self._fitted(kind, layer) for kind in self._kinds() for layer in range(len(self.layers))}

    def _fitted(self, kind: str, layer: int) -> tuple[Form, Form]:
        """Return the forms of a layer less its part of all savings."""
        share = (len(self.layers) - 1) / len(self.layers)
        compute, sync = [], []
        for each in self._of(kind, layer):
            saved = self._saved(kind, each.batch, each.units)
            scale = each.batch / self.batch
            compute.append((scale, each.units, max(each.compute - saved[0] * share, each.compute * _LEAST_LEFT)))
            if each.units > 1:
                sync.append((scale, each.units, max(each.sync - saved[1] * share, 0.0)))
        return fitted(compute), fitted(sync or [(1.0, 1, 0.0)])

    def _letters(self, layer: int) -> dict[str, list[float]]:
        """Return a layer's fields of the profile, one number per type."""
        compute, sync = zip(*(self._forms[kind, layer] for kind in self._kinds()), strict=True)
        cut = []
        for kind in self._kinds():
            moved = [each for each in self.transfers if (each.type, each.layer) == (kind, layer)]
            cut.append(fitted([(each.batch / self.batch, 1, each.seconds) for each in moved] or [(1.0, 1, 0.0)]))
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

    def _stages(self) -> Iterator[tuple[str, int, int]]:
        for kind in self._kinds():
            for first in range(len(self.layers)):
                for last in range(first, len(self.layers)):
                    yield kind, first, last

    def _counts(self, kind: str) -> list[int]:
        return sorted({each.units for each in self._of(kind, 0) if each.batch == self.batch})

    @cached_property
    def _by_layer(self) -> dict[tuple[str, int | None], list[LayerTiming]]:
        by_layer: dict[tuple[str, int | None], list[LayerTiming]] = {}
        for each in self.timings:
            by_layer.setdefault((each.type, each.layer), []).append(each)
        return by_layer

    def _of(self, kind: str, layer: int | None) -> list[LayerTiming]:
        return self._by_layer.get((kind, layer), [])

    def _at(self, kind: str, layer: int, units: int, batch: int | None = None) -> LayerTiming:
        wanted = (batch or self.batch, units)
        return next(each for each in self._of(kind, layer) if (each.batch, each.units) == wanted)
