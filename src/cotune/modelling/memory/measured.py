"""Peak memory after one or two measured batches: a line with a floor, the counted line as prior.

    peak(b) = max(floor, r + m b)        r ~ N(counted, sd), m ~ N(counted, sd), each measured peak exact but for noise

A measured peak that stands on the floor (the optimiser's step) says nothing of the line but that it was
lower there. Other phases keep their counted slope, scaled as the measured one was, so that a steeper phase
that comes up later is not missed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from cotune.modelling.memory.peak import CountedMemory, Phase
from cotune.modelling.memory.phases import GIB, STATES_SPREAD, Correction, PhaseForecast, spreads
from cotune.types import Floats

_NOISE = 0.0005  # share of the peak: equal runs recorded twice differ by less
_FIXED = 0.3 * GIB  # by which the counted fixed part may be off beside its share: buffers, workspaces
_ON_FLOOR = 0.01  # share by which a peak may be above the counted floor and yet stand on it
_WORKSPACE = 0.1 * GIB  # and bytes: cuBLAS's workspace and roundings, 50 to 90 MiB on an H200


@dataclass(frozen=True, slots=True)
class PhaseLine:
    """A phase after measuring: mean and covariance of its fixed part and its bytes a sequence."""

    phase: str
    fixed: float
    per_sequence: float
    covariance: Floats

    def forecast(self, micro_batch: int) -> PhaseForecast:
        at = np.array([1.0, micro_batch])
        variance = float(at @ self.covariance @ at)
        mid = self.fixed + self.per_sequence * micro_batch
        return PhaseForecast(mid, math.hypot(math.sqrt(max(variance, 0.0)), _NOISE * mid), self.phase)


def measured_forecasts(
    counted: CountedMemory, micro_batch: int, measured: Mapping[int, float], correction: Correction
) -> list[PhaseForecast]:
    """Return what each phase of a micro-batch should take, given the peaks of others by their size."""
    floor, rising = _parted(counted, measured)
    sd = _NOISE * floor if len(rising) < len(measured) else STATES_SPREAD * floor
    lines = _lines(counted, rising, measured, correction)
    return [*(line.forecast(micro_batch) for line in lines), PhaseForecast(floor, sd, "update")]


def _parted(counted: CountedMemory, measured: Mapping[int, float]) -> tuple[float, dict[int, float]]:
    """Return the floor, and the peaks that rise above it."""
    smallest = measured[min(measured)]
    counted_floor = counted.phases[0].bytes(0)
    stands = smallest <= counted_floor * (1 + _ON_FLOOR) or (
        smallest <= counted_floor + _WORKSPACE and _bends(counted, measured)
    )
    floor = smallest if stands else min(counted_floor, smallest)
    level = floor * (1 + _NOISE) if stands else 0.0
    return floor, {batch: peak for batch, peak in measured.items() if peak > level}


def _bends(counted: CountedMemory, measured: Mapping[int, float]) -> bool:
    """Return whether peaks rise less from the smallest batch than is counted, as from a floor they do."""
    if len(measured) == 1:
        return False
    first, second = sorted(measured)[:2]
    secant = (measured[second] - measured[first]) / (second - first)
    return secant < counted.phase(max(measured)).per_sequence


def _lines(
    counted: CountedMemory, rising: Mapping[int, float], measured: Mapping[int, float], correction: Correction
) -> list[PhaseLine]:
    phases = [phase for phase in counted.phases if phase.per_sequence > 0]
    priors = [_prior(counted, phase, correction) for phase in phases]
    if not rising:
        return [_below(prior, measured) for prior in priors]
    largest = max(rising)
    seen = max(range(len(phases)), key=lambda at: phases[at].bytes(largest))
    found = _posterior(priors[seen], rising)
    scale = found.per_sequence / priors[seen].per_sequence
    shift = found.fixed - priors[seen].fixed
    scales = np.diag([1.0, scale])
    others = [
        PhaseLine(prior.phase, prior.fixed + shift, prior.per_sequence * scale, scales @ prior.covariance @ scales)
        for prior in (*priors[:seen], *priors[seen + 1 :])
    ]
    return [found, *(_below(one, measured) for one in others)]


def _prior(counted: CountedMemory, phase: Phase, correction: Correction) -> PhaseLine:
    of_states, of_batch = spreads(counted, correction)
    slope = phase.per_sequence * correction.factor
    sd = math.hypot(of_states * phase.fixed, _FIXED)
    return PhaseLine(phase.name, phase.fixed, slope, np.diag([sd**2, (of_batch * slope) ** 2]))


def _posterior(prior: PhaseLine, rising: Mapping[int, float]) -> PhaseLine:
    """Return the line given exact points on it: one step of a Kalman filter for each."""
    mean, covariance = np.array([prior.fixed, prior.per_sequence]), prior.covariance
    for batch, peak in rising.items():
        at = np.array([1.0, batch])
        gain = covariance @ at / (at @ covariance @ at + (_NOISE * peak) ** 2)
        mean = mean + gain * (peak - at @ mean)
        covariance = covariance - np.outer(gain, at @ covariance)
    return PhaseLine(prior.phase, float(mean[0]), float(mean[1]), covariance)


def _below(line: PhaseLine, measured: Mapping[int, float]) -> PhaseLine:
    """Return the line no steeper than the measured peaks allow: it did not make any of them."""
    steepest = min((peak - line.fixed) / batch for batch, peak in measured.items())
    if line.per_sequence <= steepest:
        return line
    return replace(line, per_sequence=max(steepest, 0.0))
