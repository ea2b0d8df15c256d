"""A counted law with the coefficients that rows of any models and machines say, and the process of what it misses.

One set of coefficients for all: they are factors on published peaks, so machines can share them. Each machine has its
own pace of each resource beside them (none reaches the same share of its peak), as far as its rows say. How far the
coefficients are known (Laplace's approximation) is carried to every forecast, along the slopes of the law.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cotune.modelling.layouts.fitting import Coefficient, Logarithms, LogPrior, RobustLoss, most_likely, slopes_of
from cotune.modelling.layouts.layout import LayoutRows, Layouts
from cotune.modelling.layouts.memory import MEMORY, count_memory, log_memory
from cotune.modelling.layouts.residual import EIGHTY, Residuals, points_of
from cotune.modelling.layouts.seconds import COEFFICIENTS, RESOURCES, count_terms, log_seconds
from cotune.modelling.layouts.setting import Setting
from cotune.types import Floats


@dataclass(frozen=True)
class CountedLaw:
    """How a quantity follows from counted terms, and how it is fitted."""

    coefficients: tuple[Coefficient, ...]
    count: Callable[[Layouts, Setting], Any]
    logarithm: Callable[[Floats, Any], Floats]  # of the quantity, at logarithms of the coefficients
    measured: Callable[[LayoutRows], Floats]
    paces: Floats  # which resource's pace each coefficient follows (coefficients, resources)
    loss: RobustLoss


SECONDS = CountedLaw(
    COEFFICIENTS, count_terms, log_seconds, lambda rows: rows.seconds, RESOURCES,
    RobustLoss(above=0.08, below=0.2, noise=0.08),
)  # fmt: skip
GIBIBYTES = CountedLaw(
    MEMORY, count_memory, log_memory, lambda rows: rows.gib, np.zeros((len(MEMORY), 0)),
    RobustLoss(above=0.15, below=0.1, noise=0.1),
)  # fmt: skip
OWN_LOSS = RobustLoss(above=0.04, below=0.2, noise=0.04)  # of rows of a model for which other models made the prior
# On a machine that no table has a row far from the law is the law's fault, not a straggler.
STRANGE = replace(SECONDS, loss=RobustLoss(above=1.0, below=1.0, noise=0.1))
STRANGE_PACE = 2.0  # a resource of such a machine may be seven times as fast or slow as that of those known
PACE = 0.2  # by which machines of the table differ in each resource, as a deviation of the logarithm


@dataclass(frozen=True)
class FittedLaw:
    """A law given rows."""

    law: CountedLaw
    machines: tuple[str, ...]
    theta: Floats  # logarithms of the coefficients, then of the paces of each machine
    doubt: Floats  # covariance of theta
    residuals: Residuals

    @classmethod
    def fit(
        cls,
        law: CountedLaw,
        rows: Sequence[LayoutRows],
        prior: LogPrior,
        pace: float = PACE,
        others: Residuals | None = None,
    ) -> FittedLaw:
        """Return the law fitted to rows of machines that differ by `pace`; `others`: what it misses on other models."""
        law = law if pace else replace(law, paces=law.paces[:, :0])
        machines = tuple(sorted({part.setting.machine.name for part in rows}))
        paces = len(machines) * law.paces.shape[1]
        before = LogPrior(
            np.concatenate([prior.centre, np.zeros(paces)]), np.concatenate([prior.spread, np.full(paces, pace)])
        )
        seen = [part.take(np.isfinite(law.measured(part))) for part in rows]
        logarithms = [_logarithms(law, machines, part.layouts, part.setting) for part in seen]

        def together(theta: Floats) -> Floats:
            return np.concatenate([one(theta) for one in logarithms])

        measured = np.concatenate([law.measured(part) for part in seen])
        theta = most_likely(together, measured, before, law.loss)
        slopes = slopes_of(together, theta)
        precision: Floats = slopes.T @ slopes / law.loss.noise**2 + np.diag(1 / before.spread**2)
        misses = np.log(measured) - together(theta)
        points = np.concatenate([points_of(part.layouts, part.setting) for part in seen])
        weights = law.loss.weights(-misses)
        residuals = others.and_then(points, misses, weights) if others else Residuals.fit(points, misses, law.loss)
        return cls(law, machines, theta, np.asarray(np.linalg.inv(precision), dtype=np.float64), residuals)

    def coefficients(self, machine: str) -> Floats:
        """Return the logarithms of the coefficients on a machine, its paces included."""
        return np.asarray(_on_machine(self.law, self.machines, machine) @ self.theta)

    def predict(self, layouts: Layouts, setting: Setting) -> Floats:
        """Return 10th, 50th and 90th percentiles, (layouts, 3)."""
        centre, deviation = self.expected(layouts, setting)
        points = points_of(layouts, setting)
        low, high = (np.hypot(self.residuals.tail(points, side), EIGHTY * deviation) for side in (-1, 1))
        return np.exp(np.stack([centre - low, centre, centre + high], axis=1))

    def expected(self, layouts: Layouts, setting: Setting) -> tuple[Floats, Floats]:
        """Return the logarithm of the quantity of layouts, and its deviation without the noise of a run."""
        logarithms = _logarithms(self.law, self.machines, layouts, setting)
        slopes = slopes_of(logarithms, self.theta)
        missed, variance = self.residuals.expected(points_of(layouts, setting))
        return logarithms(self.theta) + missed, np.sqrt(variance + np.sum((slopes @ self.doubt) * slopes, axis=1))

    def covariance(self, parts: Sequence[tuple[Layouts, Setting]]) -> Floats:
        """Return that of the logarithms of the quantity of layouts, each part's in turn."""
        points = np.concatenate([points_of(*part) for part in parts])
        slopes = np.concatenate([slopes_of(_logarithms(self.law, self.machines, *part), self.theta) for part in parts])
        return np.asarray(slopes @ self.doubt @ slopes.T + self.residuals.covariance(points))


def _logarithms(law: CountedLaw, machines: Sequence[str], layouts: Layouts, setting: Setting) -> Logarithms:
    counted, here = law.count(layouts, setting), _on_machine(law, machines, setting.machine.name)
    return lambda theta: law.logarithm(here @ theta, counted)


def _on_machine(law: CountedLaw, machines: Sequence[str], machine: str) -> Floats:
    """Return the matrix that takes all of theta to the coefficients on a machine."""
    paces = [law.paces if one == machine else np.zeros_like(law.paces) for one in machines]
    return np.hstack([np.eye(len(law.coefficients)), *paces])
