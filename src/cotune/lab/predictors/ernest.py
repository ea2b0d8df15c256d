"""Ernest's law of machines and input, and its choice of what to measure.

    t(s, m) = th0 + th1 s / m + th2 ln m + th3 m                          all terms >= 0

s is the input and m the machines: a serial part, a part that is shared out, a tree of
messages and what every machine costs. Here an iteration is one training step, so its input is
the global batch, and s / m what one worker takes of it. The coefficients are found by
non-negative least squares on the seconds themselves, as published.

What to measure (A-optimal design): of the candidates i with features f_i, each divided by its
mean, and costs c_i, take the weights

    min trace (sum_i l_i f_i f_i^T)^-1       0 <= l_i <= 1,   sum_i l_i c_i <= budget

and run those with a weight above 0.3.

Reference: Venkataraman et al., Ernest: efficient performance prediction for advanced analytics, NSDI 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, nnls

from cotune.predict.coefficients import SumOfTerms
from cotune.predict.samples import timings
from cotune.space import Configs
from cotune.types import Floats, Ints, Job, Sample

WORTH_RUNNING = 0.3
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


def design(rows: Floats, costs: Floats, budget: float) -> Floats:
    """Return the weight of each candidate in the design of least variance within a budget."""
    means = rows.mean(axis=0)
    features = rows[:, means > 0] / means[means > 0]
    if np.linalg.matrix_rank(features) < features.shape[1]:
        raise ValueError(f"{len(rows)} candidates cannot tell {features.shape[1]} terms apart")
    if costs.sum() <= budget:
        return np.ones(len(rows))
    start = np.full(len(rows), budget / costs.sum())

    def variance(weights: Floats) -> tuple[float, Floats]:
        inverse = np.linalg.inv((features * weights[:, None]).T @ features)
        return float(np.trace(inverse)), -((features @ inverse) ** 2).sum(axis=1)

    unit = variance(start)[0]
    found = minimize(
        lambda weights: tuple(part / unit for part in variance(weights)),
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(rows),
        constraints={"type": "ineq", "fun": lambda w: 1 - w @ costs / budget, "jac": lambda _: -costs / budget},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    weights: Floats = np.clip(found.x, 0.0, 1.0)
    return weights


def worth_running(weights: Floats) -> Ints:
    """Return the candidates that a design says to run, the most wanted first."""
    order = np.argsort(-weights, kind="stable")
    return order[weights[order] > WORTH_RUNNING]
