"""Optimus: seconds per step of w workers and p parameter servers, and the loss curve.

    T(p, w) = a M / w + b + c w q + d w + e p         all terms >= 0

M is the global batch, so M / w is what one worker takes, and q the share of the parameters on
the slowest server: 1 / p where they are cut into equal pieces, more where whole tensors lie on
one server. Without servers (all-reduce) every worker is one: p = w. Asynchronous workers take
such steps of their own without waiting, so the speed of all is w / T, which is the same seconds
per epoch; as published their batch is fixed and a M / w is left out. The coefficients are fitted
by non-negative least squares on relative errors; measured configs are not used as they are, unlike
in the paper, so that what is judged is the law.

Accuracy follows the loss curve of the nearest measured batch (`predict/loss_curve.py`), the loss being
what is missing to a perfect score; a forecast says when these curves have converged, or that
they are not to be believed.

Reference: Peng et al., Optimus: an efficient dynamic resource scheduler for deep learning clusters, EuroSys 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal

import numpy as np
from scipy.optimize import nnls

from cotune.bounds import Count
from cotune.predict.coefficients import SumOfTerms
from cotune.predict.loss_curve import LossCurve, joined, perfect_score
from cotune.predict.samples import CURVES, by_global_batch, curves, timings
from cotune.space import Configs
from cotune.types import ASYNCHRONOUS, Floats, Job, Sample

Law = Literal["auto", "sync", "async"]


@dataclass(frozen=True, slots=True)
class Optimus:
    """Optimus's laws of workers and servers, by non-negative least squares, and its loss curve."""

    law: Law = "auto"
    tensors: tuple[Count, ...] = ()

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> SumOfTerms:
        """Return the law that fits the samples best; `auto` reads from their axis whether workers wait."""
        measured = timings(samples, least=2)
        examples = job.examples or 1  # unknown, it is a factor of every coefficient
        steps = measured.seconds / measured.configs.steps(examples)
        law = self.law
        if law == "auto":
            law = "async" if _asynchronous(measured.configs) else "sync"
        factors = partial(_factors, law=law, tensors=self.tensors)
        coefficients, _ = nnls(factors(measured.configs) / steps[:, None], np.ones(len(steps)))
        return SumOfTerms(factors, np.asarray(coefficients, dtype=np.float64), examples)

    def fit_accuracy(self, job: Job, samples: Sequence[Sample]) -> _Learning:
        """Return the loss curve of each measured batch."""
        found = curves(job, samples, least_points=2)
        perfect = perfect_score(job, found)
        by_batch = by_global_batch(found)
        fitted = tuple(replace(_kept(tuple(same), perfect), metric=job.metric) for same in by_batch.values())
        return _Learning(tuple(by_batch), fitted, perfect)


@dataclass(frozen=True, slots=True)
class _Learning:
    batches: tuple[int, ...]  # as measured, of all workers
    fitted: tuple[LossCurve, ...]
    perfect: float

    def predict(self, configs: Configs, epochs: Floats) -> Floats:
        wished = np.log(np.maximum(configs.global_batch, 1))
        nearest = np.abs(wished[:, None] - np.log(self.batches)).argmin(axis=1)
        places, row = np.unique(nearest, return_inverse=True)
        losses: Floats = np.stack([self.fitted[place].loss(epochs) for place in places])[row]
        return self.perfect - losses

    @property
    def remark(self) -> str:
        """Return when the metric is at its end, or why that cannot be told."""
        verdicts = [curve.converges() for curve in self.fitted]
        ends = [verdict.epoch for verdict in verdicts if verdict.epoch is not None]
        doubts = [f"at batch {b} {v.reason}" for b, v in zip(self.batches, verdicts, strict=True) if v.epoch is None]
        if not ends:
            return doubts[0]
        first, last = min(ends), max(ends)
        when = f"{f'{first:.0f} to ' if first < last else ''}{last:.0f} epochs"
        words = f"its {self.fitted[0].metric} has converged after {when}"
        return "; ".join([words, *doubts[:1]])


def slowest_share(tensors: Sequence[int], servers: int) -> float:
    """Return the share of all numbers on the fullest server, each tensor whole and put where there is most room."""
    if not tensors:
        return 1 / servers
    held = np.zeros(servers)
    for size in sorted(tensors, reverse=True):
        held[held.argmin()] += size
    return float(held.max() / held.sum())


def _asynchronous(configs: Configs) -> bool:
    column = configs.named.get(ASYNCHRONOUS)
    return column is not None and all(str(value).lower() == "true" for value in column)


def _factors(configs: Configs, law: Law, tensors: tuple[int, ...]) -> Floats:
    workers = configs.workers.astype(np.float64)
    servers = np.where(configs.servers > 0, configs.servers, configs.workers)
    counts, place = np.unique(servers, return_inverse=True)
    shares = np.array([slowest_share(tensors, int(count)) for count in counts])[place]
    columns = [np.ones(len(configs)), workers * shares, workers, servers.astype(np.float64)]
    return np.column_stack(columns if law == "async" else [configs.per_step.astype(np.float64), *columns])


_kept = lru_cache(CURVES)(joined)
