"""Comparing with similar models: what the nearest fingerprints in the store took, against their counts.

    distance = |ln F - ln F'| / 4 + |ln B - ln B'| / 4 + |ln n - ln n'| / 4 + sum |mix - mix'| / 2
    factor   = exp(weighted mean of ln(measured / counted)),  weights exp(-distance / 0.5)

F, B and n are the operations, bytes and operators of a step, mix the shares of the families. Counts miss
by a factor that similar models on the same device share; the nearest ones tell it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotune.store.rows import Fingerprint, ModelStep

_NEAR = 1.5
_WIDTH = 0.5
_MOST = 5
_LEAST_SPREAD = 0.12
_PER_DISTANCE = 0.35


@dataclass(frozen=True, slots=True)
class SimilarModel:
    """A measured step, how far its model is, and measured / counted seconds."""

    step: ModelStep
    distance: float
    ratio: float


@dataclass(frozen=True, slots=True)
class HistoryCorrection:
    """What to multiply counted seconds with, the spread of its logarithm, and who says so."""

    factor: float
    spread: float
    neighbours: tuple[SimilarModel, ...]


def distance(one: Fingerprint, other: Fingerprint) -> float:
    """Return how unlike two steps are; 0 for the same counts."""
    logs = [
        abs(math.log((a + 1) / (b + 1)))
        for a, b in ((one.flops, other.flops), (one.bytes, other.bytes), (one.operators, other.operators))
    ]
    mix, another = dict(one.mix), dict(other.mix)
    mixed = sum(abs(mix.get(name, 0.0) - another.get(name, 0.0)) for name in {*mix, *another})
    return sum(logs) / 4 + mixed / 2


def correction(asked: Fingerprint, steps: Sequence[ModelStep]) -> HistoryCorrection | None:
    """Return what the nearest measured steps say about counted seconds, or None when none is near."""
    near = sorted(
        (SimilarModel(step, distance(asked, step.fingerprint), step.seconds / step.counted_seconds) for step in steps),
        key=lambda neighbour: neighbour.distance,
    )
    kept = [neighbour for neighbour in near if neighbour.distance < _NEAR][:_MOST]
    if not kept:
        return None
    weights = np.exp([-neighbour.distance / _WIDTH for neighbour in kept])
    logs = np.log([neighbour.ratio for neighbour in kept])
    mean = np.average(logs, weights=weights)
    variance = np.average((logs - mean) ** 2, weights=weights)
    spread = math.hypot(_LEAST_SPREAD, math.sqrt(variance), _PER_DISTANCE * kept[0].distance)
    return HistoryCorrection(math.exp(mean), spread, tuple(kept))
