"""Ernest's law of machines and input.

    t(s, m) = th0 + th1 s / m + th2 ln m + th3 m                          all terms >= 0

s is the input and m the machines: a serial part, a part that is shared out, a tree of
messages and what every machine costs. Here an iteration is one training step, so its input is
the global batch, and s / m what one worker takes of it. The coefficients are found by
non-negative least squares on the seconds themselves, as published.

Reference: Venkataraman et al., Ernest: efficient performance prediction for advanced analytics, NSDI 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from cotune.predict.coefficients import SumOfTerms
from cotune.predict.samples import timings
from cotune.space import Configs
from cotune.types import Floats, Job, Sample

_LEAST = 1e-3  # of a typical step: no step takes nothing, whatever the law says outside what was measured


@dataclass(frozen=True, slots=True)
class Ernest:
    """Ernest's four terms of input and machines, by non-negative least squares."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> SumOfTerms:
        """Return the law of a step, and with it the seconds of an epoch."""
        measured = timings(samples, least=2)
        examples = job.examples or 1  # unknown, it is a factor of every coefficient
        steps = measured.seconds / measured.configs.steps(examples)
        return SumOfTerms(_of, fit(_of(measured.configs), steps), examples, _LEAST * float(np.median(steps)))


def _of(configs: Configs) -> Floats:
    workers = configs.workers.astype(np.float64)
    return terms(configs.per_step * workers, workers)


def terms(size: Floats, machines: Floats) -> Floats:
    """Return what each coefficient is multiplied with: one row for each pair of input and machines."""
    return np.column_stack([np.ones_like(machines), size / machines, np.log(machines), machines])


def fit(rows: Floats, seconds: Floats) -> Floats:
    """Return the coefficients with the least squared error of those that are not negative."""
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1.0  # ln m where all are on one machine
    coefficients, _ = nnls(rows / scale, seconds)  # of columns of like size, which is solved more exactly
    return np.asarray(coefficients / scale, dtype=np.float64)
