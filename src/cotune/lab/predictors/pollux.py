"""Pollux's step time: compute and network overlap by a power g.

    T_acc  = ac + bc b
    T_net  = 0                          one replica
             ar + br max(R - 2, 0)      R replicas inside one node
             an + bn max(R - 2, 0)      across nodes
    T_step = (T_acc^g + T_net^g)^(1/g)                g in [1, 10]: 1 no overlap, 10 all
    epoch  = examples / B x (s T_acc + T_step)        s = accumulate - 1

Fitted to the root mean square of the log error
+ 1e-3 (g - 1)^2 + 1e-2 ((bn / an)^2 + (br / ar)^2). What the samples cannot show is set by
rule: with one batch size ac is half the step; with at most two replicas nothing grows with
R; without samples across nodes these are 1.1 times those inside one, and the other way round.

Reference: Qiao et al., Pollux: co-adaptive cluster scheduling for goodput-optimized deep learning, OSDI 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from cotune.bounds import Count
from cotune.predict import SecondsModel
from cotune.predict.law import nodes
from cotune.predict.samples import timings
from cotune.space import Configs
from cotune.types import Floats, Job, Mask, Sample

AC, BC, AN, BN, AR, BR, G = range(7)
_NONE = -18.0  # the logarithm of nothing
_STARTS = (  # ac, bc b, an, bn, ar, br as shares of a step, and g
    (0.3, 0.7, 0.3, 0.02, 0.1, 0.02, 1.5),
    (0.7, 0.3, 1.0, 0.10, 0.5, 0.05, 2.5),
)


@dataclass(frozen=True, slots=True)
class Pollux:
    """Affine compute that overlaps with the network by a fitted power (Pollux, AdaptDL)."""

    per_node: Count | None = None

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> SecondsModel:
        """Return examples / B x (s T_acc + T_step), seconds per epoch."""
        measured = timings(samples, least=2)
        examples = job.examples or 1  # unknown, it is a factor of every coefficient
        table = _Table.of(measured.configs, self.per_node)
        steps = measured.seconds / measured.configs.steps(examples)
        unit = float(np.median(steps))
        typical = float(np.median(table.batch))
        fits = [_descend(table, np.log(steps / unit), _start(shares, typical), typical) for shares in _STARTS]
        coefficients = min(fits, key=lambda fit: fit[0])[1]
        return _Model(_completed(coefficients, table), unit, examples, self.per_node)


@dataclass(frozen=True, slots=True)
class _Table:
    """What the law reads from configs, as columns; `terms` is what multiplies each coefficient, one row each."""

    batch: Floats
    more: Floats  # accumulation steps before the last
    growth: Floats  # max(R - 2, 0)
    inside: Mask
    across: Mask
    terms: Floats

    @classmethod
    def of(cls, configs: Configs, per_node: int | None) -> _Table:
        spread = nodes(configs, per_node) > 1
        batch = configs.batch_size.astype(np.float64)
        growth = np.maximum(configs.workers - 2.0, 0.0)
        inside = ~spread & (configs.workers > 1)
        terms = np.stack([np.ones_like(batch), batch, spread, spread * growth, inside, inside * growth])
        return cls(batch, configs.accumulate.astype(np.float64) - 1, growth, inside, spread, terms)

    def step(self, coefficients: Floats) -> Floats:
        """Return the seconds of an optimiser step."""
        seconds, g = coefficients[:G, None] * self.terms, coefficients[G]
        compute, network = seconds[:AN].sum(axis=0), seconds[AN:].sum(axis=0)
        result: Floats = self.more * compute + (compute**g + network**g) ** (1 / g)
        return result


def _start(shares: tuple[float, ...], typical: float) -> Floats:
    start = np.array(shares)
    start[BC] /= typical
    return np.append(np.log(start[:G]), start[G])


def _descend(table: _Table, target: Floats, start: Floats, typical: float) -> tuple[float, Floats]:
    """Return the error and the coefficients reached from a start: logarithms, and g as it is."""
    low = np.append(np.full(G, _NONE), 1.0)
    high = np.append(np.full(G, 6.0), 10.0)
    fixed = _fixed(table, target)
    for coefficient, value in fixed.items():
        start[coefficient] = low[coefficient] = high[coefficient] = value
    low[BC] -= np.log(typical)
    found = minimize(
        _loss,
        start,
        args=(table, target),
        method="SLSQP",
        bounds=np.stack([low, high], axis=1),
        options={"maxiter": 100, "ftol": 1e-6},
    )
    return float(found.fun), np.append(np.exp(found.x[:G]), found.x[G])


def _fixed(table: _Table, target: Floats) -> dict[int, float]:
    """Return the coefficients that the samples cannot tell."""
    fixed: dict[int, float] = {}
    if np.ptp(table.batch) == 0:
        fixed[AC] = float(target.min()) - np.log(2.0)
    for seen, first, growth in ((table.across, AN, BN), (table.inside, AR, BR)):
        if not seen.any():
            fixed[first] = fixed[growth] = _NONE
        elif table.growth[seen].max() == 0:
            fixed[growth] = _NONE
    return fixed


def _completed(coefficients: Floats, table: _Table) -> Floats:
    """Return the coefficients with those of an unseen link level guessed from the other."""
    whole = coefficients.copy()
    if not table.across.any():
        whole[[AN, BN]] = 1.1 * whole[[AR, BR]]
    elif not table.inside.any():
        whole[[AR, BR]] = whole[[AN, BN]] / 1.1
    return whole


def _loss(x: Floats, table: _Table, target: Floats) -> float:
    """Return the loss; x holds logarithms of the coefficients, and g."""
    coefficients = np.append(np.exp(x[:G]), x[G])
    error = np.log(table.step(coefficients)) - target
    loss = float(np.sqrt(np.mean(error**2) + 1e-12)) + 1e-3 * (float(x[G]) - 1) ** 2
    for first, growth in ((AN, BN), (AR, BR)):
        if x[growth] > _NONE:
            loss += 1e-2 * float(coefficients[growth] / coefficients[first]) ** 2
    return loss


@dataclass(frozen=True, slots=True)
class _Model:
    coefficients: Floats
    unit: float
    examples: int
    per_node: int | None

    def predict(self, configs: Configs) -> Floats:
        table = _Table.of(configs, self.per_node)
        return configs.steps(self.examples) * self.unit * table.step(self.coefficients)
