"""Seconds that a loop waits for its data, for any batch: from the waits of a few starts.

    in line   wait of a step = i b                          the loader works while the loop waits
    ahead     wait of a step = max(0, i b - busy(b))        the loader prefetches beside a step of busy(b) seconds
    busy(b)   = c0 + c1 b                                   what a step takes without waiting

b is the batch of a worker, which reads for itself. Of the two, the one that is nearer to what was measured counts.
A loop that waits for less than a hundredth of its time is not waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import nnls

from cotune.space import Configs
from cotune.types import Config, Floats, Job, Sample

_NEGLIGIBLE = 0.01  # of an epoch


@dataclass(frozen=True, slots=True)
class InputLaw:
    """How long loading takes for each example, whether beside the step, and what a step takes without it."""

    per_example: float
    how: Literal["in line", "ahead"]
    busy: tuple[float, float]

    @classmethod
    def of(cls, job: Job, samples: Sequence[Sample]) -> InputLaw | None:
        """Return the law of some starts; None where none of them has told what it waited for."""
        known = [one for one in samples if one.terms.input is not None and one.epoch_seconds and not one.failed]
        if not known or not job.examples:
            return None
        batches = np.array([float(one.config.batch_size * one.config.accumulate) for one in known])
        steps = _steps(job, [one.config for one in known])
        waits = np.array([one.terms.input or 0.0 for one in known]) / steps
        whole = np.array([one.epoch_seconds or 0.0 for one in known]) / steps
        if float(np.median(waits / whole)) < _NEGLIGIBLE:
            return cls(0.0, "in line", (0.0, 0.0))
        busy = np.maximum(whole - waits, 0.0)
        coefficients = nnls(np.column_stack([np.ones_like(batches), batches]) / whole[:, None], busy / whole)[0]
        laws = [
            cls(float(np.median(waits / batches)), "in line", tuple(coefficients)),
            cls(float(np.median((waits + busy) / batches)), "ahead", tuple(coefficients)),
        ]
        return min(laws, key=lambda law: float(np.abs(law.step(batches) - waits).sum()))

    def step(self, batches: Floats) -> Floats:
        """Return the seconds that one step waits, by the batch of a worker."""
        beside = self.busy[0] + self.busy[1] * batches if self.how == "ahead" else 0.0
        return np.maximum(self.per_example * batches - beside, 0.0)

    def epoch(self, job: Job, configs: Sequence[Config]) -> Floats:
        """Return the seconds of an epoch in which configs wait for data."""
        batches = np.array([float(one.batch_size * one.accumulate) for one in configs])
        return self.step(batches) * _steps(job, configs)


def _steps(job: Job, configs: Sequence[Config]) -> Floats:
    return np.asarray(Configs.of(list(configs)).steps(job.examples or 1), dtype=float)
