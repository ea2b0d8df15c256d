"""Corrections learnt from measured peaks of other models: one factor on what a batch adds.

    log factor = F / (F + 1) x mean over F families of the median of log(measured part / counted part)

A family counts once, however many of its runs there are, and an empty history leaves the counts as they
are. The standard deviation between families is added to the spread of a new one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from cotune.modelling.memory.estimate import Correction
from cotune.modelling.memory.peak import CountedMemory


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
        if part > 0 and run.peak > phase.fixed:
            ratios[run.family].append(math.log((run.peak - phase.fixed) / part))
    if not ratios:
        return Correction()
    centres = [median(values) for values in ratios.values()]
    mean = sum(centres) / len(centres)
    spread = math.sqrt(sum((one - mean) ** 2 for one in centres) / len(centres))
    families = len(centres)
    return Correction(math.exp(mean * families / (families + 1)), spread, families)
