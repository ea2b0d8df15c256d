"""Ring all-reduce: seconds per step of n workers on N nodes, l = n / N on each.

    T(b, n, N) = a + c b + k1 (l - 1) / l + k2 (N - 1) / N                all terms >= 0
    epoch = examples / B x T                       B = b x accumulate x n, the global batch

With gradient accumulation the compute a + c b is paid `accumulate` times and the ring once.
Where workers share the cores or the bus of a machine their compute slows each other down:

    a + c b   becomes   a + c b + (l - 1) (a' + c' b)        cores = shared

The coefficients are found by non-negative least squares on the relative error, with a whisper
of a ridge: it shares out what the samples cannot tell apart (one batch size only: half to
a, half to c b).

Reference: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, J. Parallel Distrib. Comput. 69(2), 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from cotune.bounds import Count, NotNegative
from cotune.predict import SecondsModel
from cotune.predict.coefficients import SumOfTerms, fit_coefficients
from cotune.predict.law import nodes
from cotune.predict.samples import timings
from cotune.space import Configs
from cotune.types import Floats, Job, Sample

_LEAST = 1e-3  # a and c b are at least this share of a step: no worker computes for nothing


@dataclass(frozen=True, slots=True)
class Ring:
    """Affine compute plus one ring term per link level, non-negative, on relative error."""

    per_node: Count | None = None
    cores: Literal["own", "shared"] = "own"
    ridge: NotNegative = 1e-3

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> SecondsModel:
        """Return examples / B x T(b, n, N), seconds per epoch."""
        measured = timings(samples, least=2)
        examples = job.examples or 1  # unknown, it is a factor of every coefficient
        terms = partial(_terms, per_node=self.per_node, cores=self.cores)
        shares = terms(measured.configs) * (measured.configs.steps(examples) / measured.seconds)[:, None]
        least = np.where(np.arange(shares.shape[1]) < 2, _LEAST, 0.0)
        coefficients, _ = fit_coefficients(shares, least, self.ridge)
        return SumOfTerms(terms, coefficients, examples)


def _terms(configs: Configs, per_node: int | None, cores: Literal["own", "shared"]) -> Floats:
    """Return what each coefficient is multiplied with, one row per config."""
    batch, rounds = configs.batch_size.astype(np.float64), configs.accumulate.astype(np.float64)
    across = nodes(configs, per_node)
    local = configs.workers / across
    terms = [rounds, rounds * batch, (local - 1) / local, (across - 1) / across]
    if cores == "shared":
        terms += [rounds * (local - 1), rounds * (local - 1) * batch]
    return np.stack(terms, axis=1)
