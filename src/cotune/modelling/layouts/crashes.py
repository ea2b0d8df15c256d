"""Whether a layout runs at all: memory, and what else made layouts crash.

    p_memory = 1 / (1 + exp(-(ln limit - ln predicted) / width))                          limit a share of the device
    p_other  = (1 - c(kind))     c: share of crashes among layouts of the kind that memory does not explain
    p_fits   = p_memory x p_other

Kinds are (ZeRO stage 0 or more) x (pipeline or not) x (one replica or several) x (one node or several): the axes on
which programs differ in code path. The share is a Beta average: what other models showed counts as at most a few runs,
what this one showed as it is; crashes count by the probability that memory was not the cause. What cannot be built
(`allowed`) has p_fits 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotune.modelling.layouts.layout import Layouts, allowed
from cotune.modelling.layouts.memory import count_memory, log_memory
from cotune.modelling.layouts.setting import Setting
from cotune.types import Floats, Ints, Mask


@dataclass(frozen=True, slots=True)
class CrashConstants:
    """Of `p_fits`; the limit is what a CUDA context leaves of 80 GB, the rest chosen by hand leaving models out."""

    limit: float = 0.97  # of a device's memory, what a program can use
    width: float = 0.06
    crash_share: float = 0.03  # of any layout, before anything is known
    worth: float = 2.0  # runs that this counts for
    worth_of_others: float = 3.0  # runs that other models' share of a kind counts for at most


CRASH = CrashConstants()
KINDS = 16


def p_memory(log_gib: Floats, capacity_gib: float, spread: Floats | float = 0.0) -> Floats:
    """Return the probability that memory suffices, given the logarithm of the predicted GiB and its deviation."""
    width = np.sqrt(CRASH.width**2 + (0.6 * spread) ** 2)
    return np.asarray(1 / (1 + np.exp(-(np.log(CRASH.limit * capacity_gib) - log_gib) / width)))


def p_counted(theta: Floats, layouts: Layouts, setting: Setting) -> Floats:
    """Return the probability that memory suffices as it is counted with these coefficients.

    What cannot be built has none.
    """
    gib = log_memory(theta, count_memory(layouts, setting))
    return np.asarray(p_memory(gib, setting.machine.gib) * allowed(layouts, setting))


def kinds(layouts: Layouts, per_node: int) -> Ints:
    """Return the kind of every layout, a number."""
    bits = (layouts.shard > 0, layouts.pp > 1, layouts.dp > 1, layouts.gpus > per_node)
    return np.asarray(sum(bit.astype(np.int64) << place for place, bit in enumerate(bits)))


@dataclass(frozen=True, slots=True)
class TriedLayouts:
    """Layouts that were tried: their kinds, whether they ran, and the probability that memory sufficed."""

    kinds: Ints
    ran: Mask
    p_memory: Floats

    def runs_of(self, kind: int) -> tuple[float, float]:
        """Return how many crashes of a kind memory does not explain, among how many tries that memory allowed."""
        mine = self.kinds == kind
        tried = np.where(self.ran[mine], 1.0, self.p_memory[mine])
        return float(np.sum(tried * ~self.ran[mine])), float(np.sum(tried))


def crash_shares(own: TriedLayouts, others: TriedLayouts) -> Floats:
    """Return the share of each kind's layouts that crash though memory suffices."""
    shares = np.zeros(KINDS)
    for kind in range(KINDS):
        crashed, tried = others.runs_of(kind)
        scale = min(1.0, CRASH.worth_of_others / tried) if tried else 0.0
        mine, tries = own.runs_of(kind)
        above = CRASH.crash_share * CRASH.worth + scale * crashed + mine
        shares[kind] = above / (CRASH.worth + scale * tried + tries)
    return shares
