"""Optimus's speed law: seconds per step of w workers and p parameter servers.

    T(p, w) = a M / w + b + c w / p + d w + e p       all terms >= 0

M is the global batch, so M / w is what one worker takes. Without servers (all-reduce)
every worker is one: p = w. The letters are fitted by non-negative least squares on
relative errors; measured configs are not used as they are, unlike in the paper, so that
what is judged is the law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from cotune.predict._samples import timings
from cotune.space import Configs
from cotune.types import Floats, Job, Sample


@dataclass(frozen=True, slots=True)
class Optimus:
    """Optimus's law of workers and servers, by non-negative least squares."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> _Speed:
        """Return the law that fits the samples best."""
        measured = timings(samples, least=2)
        examples = job.examples or 1  # unknown, it is a factor of every letter
        steps = measured.seconds / measured.configs.steps(examples)
        letters, _ = nnls(_factors(measured.configs) / steps[:, None], np.ones(len(steps)))
        return _Speed(examples, np.asarray(letters, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class _Speed:
    examples: int
    letters: Floats

    def predict(self, configs: Configs) -> Floats:
        return np.asarray(_factors(configs) @ self.letters * configs.steps(self.examples))


def _factors(configs: Configs) -> Floats:
    workers = configs.workers.astype(np.float64)
    servers = np.where(configs.servers > 0, configs.servers, configs.workers).astype(np.float64)
    each = (configs.batch_size * configs.accumulate).astype(np.float64)
    return np.column_stack([each, np.ones(len(configs)), workers / servers, workers, servers])
