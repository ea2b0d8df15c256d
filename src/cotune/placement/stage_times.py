"""The seconds of every possible stage, and the fewest units that make it fast enough.

A stage is layers first..last on one type; with k units it takes

    e(k) = max(C + c/k, D + d/k)        or the sum of both, if nothing overlaps
    C, c = sum of compute x (1 - a), compute x a          over its layers
    D, d = sum of sync x (1 - b), sync x b + the two cuts  (a cut is shared out evenly)

or whatever a table says.

Stages are packed: those that end at layer r lie at r (r + 1) / 2 + first, in every row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cotune.placement.counting import ClosedFormUnits, Counting, TabulatedUnits, reachable
from cotune.placement.profiles import LayerEntry, Profile
from cotune.types import Floats

MOST_UNITS = 2**20  # what "no limit" means to a machine that counts


class Step(NamedTuple):
    """Units of a stage and their seconds; `work` is the least units x seconds with so many units or more."""

    units: int
    seconds: float
    work: float


def packed(first: int, last: int) -> int:
    """Return the place of a stage in a packed row."""
    return last * (last + 1) // 2 + first


@dataclass(frozen=True, slots=True)
class AmdahlStage:
    """Stages that follow C + c/k, one pair (C, c) of arrays for each term of the maximum."""

    depth: int
    cap: Floats  # (types,) units that may be taken at most
    serial: Floats  # (terms, types, stages)
    shared: Floats  # (terms, types, stages)
    least: Floats  # (types, stages) units that memory asks for

    def within(self, slowest: float) -> Counting:
        """Return what counts units, for taus up to `slowest`: of those stages only that can be as fast."""
        cap = self.cap[:, None]
        fastest = np.where(self.least <= cap, np.max(self.serial + self.shared / cap, axis=0), np.inf)
        edges, (kinds, places) = reachable(fastest <= slowest, self.depth)
        serial, shared = self.serial[:, kinds, places], self.shared[:, kinds, places]
        return ClosedFormUnits(
            edges, serial, shared, self.least[kinds, places], self.cap[kinds], fastest[kinds, places]
        )

    def seconds(self, kind: int, first: int, last: int, units: int) -> float:
        """Return the seconds of one stage, infinite where it cannot be had."""
        place = packed(first, last)
        if not self.least[kind, place] <= units <= self.cap[kind]:
            return np.inf
        return float(np.max(self.serial[:, kind, place] + self.shared[:, kind, place] / units))

    def fastest_of(self, kind: int, first: int, last: int) -> float:
        """Return the least seconds of one stage."""
        return self.seconds(kind, first, last, int(self.cap[kind]))

    def limited_by(self, kind: int, first: int, last: int, units: int) -> str:
        """Return whether compute or communication takes the longer, or nothing where that is not known."""
        place = packed(first, last)
        terms = self.serial[:, kind, place] + self.shared[:, kind, place] / units
        return "" if len(terms) == 1 else ("compute", "communication")[int(terms.argmax())]

    def steps(self, kind: int, first: int, last: int, tau: float) -> Iterator[Step]:
        """Yield the steps of one stage from the first that is within tau, each faster than the one before."""
        place = packed(first, last)
        serial, shared = self.serial[:, kind, place].tolist(), self.shared[:, kind, place].tolist()
        least, cap = float(self.least[kind, place]), int(self.cap[kind])
        if math.isinf(least) or not all(
            still < tau or (still == tau and not part) for still, part in zip(serial, shared, strict=True)
        ):
            return
        guess = max((part / (tau - still) for still, part in zip(serial, shared, strict=True) if part), default=1.0)
        units, seconds = max(int(least), int(min(guess, cap)) - 1, 1), math.inf
        while units <= cap:
            now = max(still + part / units for still, part in zip(serial, shared, strict=True))
            if now <= tau and now < seconds:
                yield Step(units, now, units * now)
            elif now == seconds:
                return  # the serial part is all that is left
            units, seconds = units + 1, now


@dataclass(frozen=True, slots=True)
class Table:
    """Stages as measured: only the unit counts in the table can be had, and more may be slower."""

    depth: int
    cap: Floats
    counts: Floats  # (options,) rising
    entries: Floats  # (types, stages, options) seconds, infinite where not measured

    def within(self, slowest: float) -> Counting:
        edges, places = reachable(self.entries.min(axis=2) <= slowest, self.depth)
        return TabulatedUnits(edges, self.counts, np.minimum.accumulate(self.entries[places], axis=1))

    def seconds(self, kind: int, first: int, last: int, units: int) -> float:
        option = np.flatnonzero(self.counts == units)
        if not len(option) or units > self.cap[kind]:
            return np.inf
        return float(self.entries[kind, packed(first, last), option[0]])

    def fastest_of(self, kind: int, first: int, last: int) -> float:
        return float(self.entries[kind, packed(first, last)].min())

    def limited_by(self, kind: int, first: int, last: int, units: int) -> str:  # noqa: ARG002  # a table holds sums
        return ""

    def steps(self, kind: int, first: int, last: int, tau: float) -> Iterator[Step]:
        entries = self.entries[kind, packed(first, last)]
        work = np.minimum.accumulate((self.counts * entries)[::-1])[::-1]
        for units, seconds, left in zip(self.counts.tolist(), entries.tolist(), work.tolist(), strict=True):
            if seconds <= tau:
                yield Step(int(units), seconds, left)
                tau = math.nextafter(seconds, 0.0)


Stages = AmdahlStage | Table  # what every stage takes with so many units


def stages_of(profile: Profile, *, overlap: bool, batch: float | None) -> Stages:
    """Return the stages of a profile; the seconds are for `batch` examples, or for the profile's own."""
    cap = np.array([float(entry.limit or MOST_UNITS) for entry in profile.types])
    if profile.stage_seconds is not None:
        if batch not in (None, profile.batch):
            raise ValueError("a table of stages holds for its own batch only")
        return _table(profile, cap)
    return _amdahl(profile, cap, overlap, profile.batch if batch is None else batch)


def _table(profile: Profile, cap: Floats) -> Table:
    names = {entry.name: kind for kind, entry in enumerate(profile.types)}
    least = _least_units(profile, profile.batch)
    rows = [
        entry
        for entry in profile.stage_seconds or []
        if least[names[entry.type], packed(entry.first, entry.last)] <= entry.units <= cap[names[entry.type]]
    ]
    counts = sorted({entry.units for entry in rows}) or [1]
    option = {units: place for place, units in enumerate(counts)}
    entries = np.full((len(names), packed(0, profile.depth), len(counts)), np.inf)
    for entry in rows:
        entries[names[entry.type], packed(entry.first, entry.last), option[entry.units]] = entry.seconds
    return Table(profile.depth, cap, np.array(counts, dtype=np.float64), entries)


def _amdahl(profile: Profile, cap: Floats, overlap: bool, batch: float) -> AmdahlStage:
    """Return closed forms: what is fixed per batch is serial, the rest grows with the batch and is shared out."""
    scale = batch / profile.batch
    layers, types = profile.layers, len(profile.types)

    def split(whole: str, fixed: str, parallel: str | None) -> tuple[Floats, Floats]:
        seconds, still = _matrix(layers, types, whole), _matrix(layers, types, fixed)
        share = np.ones_like(seconds) if parallel is None else _matrix(layers, types, parallel)
        grown = (seconds - still) * scale
        return still + grown * (1.0 - share), grown * share

    compute = split("compute", "compute_fixed", "compute_parallel")
    sync = split("sync", "sync_fixed", "sync_parallel")
    cut = split("cut_before", "cut_fixed", None)
    fits = np.array([[seconds is not None for seconds in layer.compute or []] for layer in layers])
    barred = np.where(fits, 0.0, np.inf)
    serial = np.stack([_runs(compute[0] + barred), _runs(sync[0]) + _cuts(cut[0])])
    shared = np.stack([_runs(compute[1]), _runs(sync[1]) + _cuts(cut[1])])
    if not overlap:
        serial, shared = serial.sum(axis=0, keepdims=True), shared.sum(axis=0, keepdims=True)
    return AmdahlStage(len(layers), cap, serial, shared, _least_units(profile, batch))


def _matrix(layers: list[LayerEntry], types: int, field: str) -> Floats:
    """Return a field as (layers, types), zero where it is not given."""
    rows = [getattr(layer, field) or [0.0] * types for layer in layers]
    return np.array([[0.0 if number is None else float(number) for number in row] for row in rows])


def _runs(values: Floats) -> Floats:
    """Return the sums of (layers, types) over every run of layers, packed; each is added up by itself."""
    depth, types = values.shape
    sums = np.empty((types, packed(0, depth)))
    for first in range(depth):
        ends = [packed(first, last) for last in range(first, depth)]
        sums[:, ends] = np.cumsum(values[first:], axis=0).T
    return sums


def _cuts(values: Floats) -> Floats:
    """Return what a stage pays for its two cuts: before its first layer and before the next stage's."""
    depth, types = values.shape
    before = values.copy()
    before[0] = 0.0
    after = np.vstack([values[1:], np.zeros((1, types))])
    paid = np.empty((types, packed(0, depth)))
    for last in range(depth):
        paid[:, packed(0, last) : packed(last, last) + 1] = (before[: last + 1] + after[last]).T
    return paid


def _least_units(profile: Profile, batch: float) -> Floats:
    """Return the units over which a stage must be spread to fit: weights + batch/k x example_bytes <= memory."""
    layers = profile.layers or [LayerEntry()] * profile.depth
    weights = profile.weight_bytes or [layer.weight_bytes or 0.0 for layer in layers]
    held = np.array([[layer.example_bytes or 0.0, size] for layer, size in zip(layers, weights, strict=True)])
    sums = _runs(held)
    least = np.ones((len(profile.types), sums.shape[1]))
    for kind, entry in enumerate(profile.types):
        if entry.memory_bytes is not None:
            free = entry.memory_bytes - sums[1]
            with np.errstate(divide="ignore", invalid="ignore"):
                least[kind] = np.maximum(1.0, np.ceil(batch * sums[0] / free))
            least[kind][(free < 0) | ((free == 0) & (sums[0] > 0))] = np.inf
            least[kind][np.isnan(least[kind])] = 1.0
    return least
