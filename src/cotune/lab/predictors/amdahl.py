"""Amdahl's law: what cannot be shared out bounds what more workers can gain.

    epoch(n) = s + p / n           both >= 0           speed-up(n) = (s + p) / (s + p / n)

s is the serial part of an epoch and p the part that n workers share. The law is blind to the
batch. Fitted by non-negative least squares on the relative error.

Reference: Amdahl, Validity of the single processor approach, AFIPS Spring Joint Computer Conference, 1967.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from cotune.predict.samples import timings
from cotune.space import Configs
from cotune.types import Floats, Job, Sample


@dataclass(frozen=True, slots=True)
class Amdahl:
    """A serial part and a part that the workers share; blind to the batch."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> _Shared:  # noqa: ARG002  # an epoch is an epoch
        """Return the two parts of an epoch."""
        measured = timings(samples)
        rows = _terms(measured.configs) / measured.seconds[:, None]
        (serial, parallel), _ = nnls(rows, np.ones(len(rows)))
        return _Shared(float(serial), float(parallel))


@dataclass(frozen=True, slots=True)
class _Shared:
    serial: float
    parallel: float

    def predict(self, configs: Configs) -> Floats:
        return np.asarray(_terms(configs) @ [self.serial, self.parallel])


def _terms(configs: Configs) -> Floats:
    return np.column_stack([np.ones(len(configs)), 1 / configs.workers])
