"""What each phase of a step takes, how far that may be off, and the room that a device has for it.

Each phase is known as fixed + c x batch part, with a spread of its own for either; c is the learnt
correction. A phase fits if it leaves room for the context and for the fragments that torch's allocator
cannot give back. The larger the largest tensor of a step, the less certain it is that the allocator
finds it a hole. The correction is learnt from measured peaks of other models: one factor on what a batch adds,

    log factor = centre x (F / s^2) / (F / s^2 + 1 / t^2)      sd = s, where families disagree

F families each have the median of log(measured part / counted part); centre is the median over families, s their
spread (1.48 x the median distance from the centre, 0.05 at least), t how far the counts are off for all models alike.
A family counts once, however many runs it has, and one that is far off does not pull the others along. Runs of a
guessed shape tell of the guess, not of the counts, and teach nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist, median

from cotune.devices import Spec
from cotune.modelling.memory.peak import CountedMemory

GIB = float(2**30)


# Standard deviations, in shares; chosen by hand, wider than what recorded models left (0.3 to 4 %).
STATES_SPREAD = 0.01  # of the weights and optimiser states of a known shape
_ACTIVATIONS_SPREAD = 0.04  # of the batch's part
_PLAIN_ACTIVATIONS_SPREAD = 0.10  # of a plain (not gated) network, or a mixture: fewer or none were recorded
_GUESSED_STATES_SPREAD = 0.05
_GUESSED_ACTIVATIONS_SPREAD = 0.35  # a shape guessed from the number of parameters
_LENGTHS_SPREAD = 0.5  # the longest batch of unpacked text
_LEAST_SPREAD = 0.004  # of the whole peak
# Of a device, from the driver and the allocator; the fragments from when recorded runs on an A100 80 GB died.
VISIBLE = 0.99  # of the nominal gibibytes
CONTEXT = 0.6 * GIB
_COLLECTIVES = 1.2 * GIB  # NCCL's buffers, with several GPUs
FRAGMENTS, FRAGMENTS_SPREAD = 0.04, 0.02
_HOLES_SPREAD = 0.25  # of the largest tensor: on an H200 runs died at 86 to 97 % where it was 15 to 26 % of all
# Of logarithms, chosen by hand: counts that were checked are off by a few percent.
_OF_ALL_MODELS = 0.03  # t
_BETWEEN_FAMILIES = 0.05  # least s


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """What a GPU has for torch: usable bytes and their standard deviation."""

    total: float
    usable: float
    sd: float


def device_room(spec: Spec, gpus: int = 1) -> DeviceRoom:
    """Return the room of a GPU among several; makers' gigabytes of device memory are gibibytes."""
    total = VISIBLE * spec.memory / 1e9 * GIB
    there = total - CONTEXT - (_COLLECTIVES if gpus > 1 else 0.0)
    return DeviceRoom(total, there * (1 - FRAGMENTS), there * FRAGMENTS_SPREAD)


@dataclass(frozen=True, slots=True)
class Correction:
    """A factor on the batch's part, learnt from other models, and what spread they left (a share)."""

    factor: float = 1.0
    sd: float = 0.0


UNCORRECTED = Correction()


@dataclass(frozen=True, slots=True)
class PhaseForecast:
    """What one phase of a step is expected to take, in bytes."""

    mid: float
    sd: float
    phase: str

    def at(self, deviations: float) -> float:
        return self.mid + deviations * self.sd

    def below(self, room: DeviceRoom, largest: float) -> float:
        """Return the probability that it leaves what is needed, where the largest tensor takes so many bytes."""
        return NormalDist().cdf((room.usable - self.mid) / math.hypot(self.sd, room.sd, _HOLES_SPREAD * largest))


def spreads(counted: CountedMemory, correction: Correction) -> tuple[float, float]:
    """Return the shares by which the states and the batch's part may be off: as other models were, or as is usual."""
    model = counted.model
    states, own = STATES_SPREAD, _ACTIVATIONS_SPREAD
    if not model.known:
        states, own = _GUESSED_STATES_SPREAD, _GUESSED_ACTIVATIONS_SPREAD
    elif not model.gated or model.experts > 1:
        own = _PLAIN_ACTIVATIONS_SPREAD
    return states, math.hypot(max(own, correction.sd), _LENGTHS_SPREAD if counted.setup.lengths_vary else 0.0)


def counted_forecasts(counted: CountedMemory, micro_batch: int, correction: Correction) -> list[PhaseForecast]:
    """Return what each phase should take, without any run of this model."""
    of_states, of_batch = spreads(counted, correction)
    found = []
    for phase in counted.phases:
        batch = phase.per_sequence * micro_batch * correction.factor
        mid = phase.fixed + batch
        sd = math.hypot(of_states * phase.fixed, of_batch * batch, _LEAST_SPREAD * mid)
        found.append(PhaseForecast(mid, sd, phase.name))
    return found


@dataclass(frozen=True, slots=True)
class MeasuredPeak:
    """A run of some family whose peak is known."""

    family: str
    counted: CountedMemory
    micro_batch: int
    peak: float


def learn(runs: Iterable[MeasuredPeak]) -> Correction:
    """Return the correction that runs of other models call for."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        phase = run.counted.phase(run.micro_batch)
        part = phase.per_sequence * run.micro_batch
        if run.counted.model.known and part > 0 and run.peak > phase.fixed:
            ratios[run.family].append(math.log((run.peak - phase.fixed) / part))
    if not ratios:
        return Correction()
    families = [median(values) for values in ratios.values()]
    centre = median(families)
    spread = 1.48 * median(abs(one - centre) for one in families)
    precision = len(families) / max(spread, _BETWEEN_FAMILIES) ** 2
    weight = precision / (precision + 1 / _OF_ALL_MODELS**2)
    return Correction(math.exp(weight * centre), spread)
