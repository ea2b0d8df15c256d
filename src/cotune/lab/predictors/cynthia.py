"""Cynthia's performance model: compute and communication overlap, and the slower one counts.

    t_step(n) = max(t_comp, 2 g n / B)          n workers with a fixed batch each

`t_comp` is measured on the fewest workers. 2 g / B, the seconds one more worker adds at the
servers, is what the steps of the most workers say once they are longer than computing:
with all-reduce instead of servers it stands for whatever grows with the workers.

Reference: Zheng et al., Cynthia: cost-efficient cloud resource provisioning for DNN training, ICPP 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotune.predict.samples import timings
from cotune.space import Configs
from cotune.types import Floats, Job, Sample


@dataclass(frozen=True, slots=True)
class Cynthia:
    """Overlapped compute and communication, each from one probe; blind to the batch."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> _Overlap:
        """Return the model of samples that have one batch size."""
        measured = timings(samples)
        examples = job.examples or 1  # unknown, it is a factor of both terms
        configs = measured.configs
        steps = measured.seconds / configs.steps(examples)
        fewest = configs.workers == configs.workers.min()
        compute = float(np.median((steps / configs.batch_size)[fewest]))  # seconds per example of one worker
        bound = steps > 1.05 * compute * configs.batch_size
        ratios = (steps / configs.workers)[bound & ~fewest]
        return _Overlap(examples, compute, float(np.median(ratios)) if len(ratios) else 0.0)


@dataclass(frozen=True, slots=True)
class _Overlap:
    examples: int
    compute: float
    communication: float

    def predict(self, configs: Configs) -> Floats:
        step = np.maximum(self.compute * configs.batch_size, self.communication * configs.workers)
        return np.asarray(step * configs.steps(self.examples))
