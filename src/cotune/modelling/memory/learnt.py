"""Corrections learnt from measured peaks of other models: one factor on what a batch adds.

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
from statistics import median

from cotune.modelling.memory.peak import CountedMemory
from cotune.modelling.memory.phases import Correction


@dataclass(frozen=True, slots=True)
class LearningConstants:
    """Standard deviations of logarithms, chosen by hand: counts that were checked are off by a few percent."""

    common: float = 0.03  # t
    between: float = 0.05  # least s


LEARNING = LearningConstants()


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
    return _agreed([median(values) for values in ratios.values()])


def _agreed(families: list[float]) -> Correction:
    centre = median(families)
    spread = 1.48 * median(abs(one - centre) for one in families)
    precision = len(families) / max(spread, LEARNING.between) ** 2
    weight = precision / (precision + 1 / LEARNING.common**2)
    return Correction(math.exp(weight * centre), spread, len(families))
