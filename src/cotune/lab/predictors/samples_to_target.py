"""Examples to a target as a line in the global batch, for every level of accuracy at once.

    S(B) = a + c B         a, c >= 0          e = S / examples, in epochs

Small batches all need about a examples; beyond a / c each further example in a batch is hardly worth
its work. A level of accuracy that several batches have reached gives one line, on relative errors;
the accuracy of a batch after e epochs is the highest level whose line it has passed, straight
between levels. Below the first level and above the last it stays there.

Reference: McCandlish et al., An empirical model of large-batch training, arXiv:1812.06162, 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from cotune.predict.samples import LearningCurve, curves
from cotune.space import Configs
from cotune.types import Floats, Job, Sample

_LEVELS = 24


@dataclass(frozen=True, slots=True)
class SamplesToTarget:
    """Examples to each level of accuracy as a line in the global batch."""

    def fit_accuracy(self, job: Job, samples: Sequence[Sample]) -> _Levels:
        """Return the line of every level."""
        found = curves(job, samples, least_points=2)
        values = np.concatenate([curve.accuracy for curve in found])
        levels = np.unique(np.quantile(values, np.linspace(0, 1, _LEVELS)))
        batch = np.array([curve.global_batch for curve in found], dtype=np.float64)
        needed = np.stack([_passed(curve, levels) for curve in found], axis=1)
        lines = np.array([_line(batch[known], row[known]) for row in needed for known in (np.isfinite(row),)])
        return _Levels(levels, lines)


@dataclass(frozen=True, slots=True)
class _Levels:
    levels: Floats
    lines: Floats  # a and c of each, in epochs

    def predict(self, configs: Configs, epochs: Floats) -> Floats:
        batches, place = np.unique(configs.global_batch, return_inverse=True)
        rows = [self._curve(float(batch), epochs) for batch in batches]
        return np.stack(rows)[place]

    def _curve(self, batch: float, epochs: Floats) -> Floats:
        # A higher level is never met before a lower one.
        needed = np.maximum.accumulate(self.lines @ [1.0, batch])
        return np.interp(epochs, needed, self.levels)


def line(batches: Floats, needed: Floats) -> Callable[[Floats], Floats]:
    """Return S(B) through what some batches needed, by non-negative least squares on the relative error."""
    a, c = _line(batches, needed)
    return lambda batch: a + c * batch


def _line(batch: Floats, needed: Floats) -> Floats:
    rows = np.column_stack([1 / needed, batch / needed])
    scale = rows.max(axis=0)
    coefficients, _ = nnls(rows / scale, np.ones(len(rows)))
    return np.asarray(coefficients / scale, dtype=np.float64)


def _passed(curve: LearningCurve, levels: Floats) -> Floats:
    """Return the epochs at which a curve first passed each level, straight between evaluations; infinite if never."""
    best = np.maximum.accumulate(curve.accuracy)
    after = np.searchsorted(best, levels)
    reached = np.append(curve.epochs, np.inf)[after]
    between = np.flatnonzero((after > 0) & (after < len(best)))
    last, first = after[between], after[between] - 1
    share = (levels[between] - best[first]) / (best[last] - best[first])
    reached[between] = curve.epochs[first] + share * (curve.epochs[last] - curve.epochs[first])
    return reached
