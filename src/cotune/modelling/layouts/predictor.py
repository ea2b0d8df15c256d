"""Forecasts of layouts of one model: laws fitted to other models first, then to its own few measured layouts.

1. Coefficients of both laws are fitted to all rows of other models, with physical priors.
2. They are the prior of this model's coefficients, fitted to its own few rows.
3. One process learns what both fits miss: what a cluster's runs show that no law counts (stalls, stragglers) as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from cotune.modelling.layouts.fitted_law import GIBIBYTES, OWN_LOSS, PACE, SECONDS, CountedLaw, FittedLaw
from cotune.modelling.layouts.fitting import LogPrior
from cotune.modelling.layouts.layout import LayoutRows, Layouts, allowed
from cotune.modelling.layouts.memory import count_memory, log_memory, p_memory
from cotune.modelling.layouts.priors import BETWEEN_MODELS, LayoutPriors
from cotune.modelling.layouts.residual import Residuals
from cotune.modelling.layouts.setting import Setting
from cotune.types import Floats


@dataclass(frozen=True, slots=True)
class LayoutForecasts:
    """What is expected of layouts: 10th, 50th and 90th percentile of seconds and GiB, and whether they run."""

    seconds: Floats  # (layouts, 3)
    gib: Floats  # (layouts, 3)
    p_memory: Floats
    p_fits: Floats  # the same, 0 for what cannot be built


@dataclass(frozen=True)
class LayoutPredictor:
    """Forecasts for one model, from other models' rows and its own."""

    setting: Setting
    seconds: FittedLaw
    memory: FittedLaw

    def predict(self, layouts: Layouts) -> LayoutForecasts:
        """Return forecasts of layouts of this model."""
        capacity = self.setting.machine.gib
        gib = self.memory.predict(layouts, self.setting)
        centre, deviation = self.memory.expected(layouts, self.setting)
        # beyond the device's memory nothing was ever measured: there the count alone speaks
        counted = log_memory(self.memory_coefficients, count_memory(layouts, self.setting))
        suffices = p_memory(np.where(counted > np.log(capacity), counted, centre), capacity, deviation)
        return LayoutForecasts(
            seconds=self.seconds.predict(layouts, self.setting),
            gib=gib,
            p_memory=suffices,
            p_fits=suffices * allowed(layouts, self.setting),
        )

    @property
    def seconds_coefficients(self) -> Floats:
        return self.seconds.coefficients(self.setting.machine.name)

    @property
    def memory_coefficients(self) -> Floats:
        return self.memory.coefficients(self.setting.machine.name)


SharedLaw = tuple[LogPrior, Residuals | None]


@dataclass(frozen=True)
class LayoutLearner:
    """Other models' rows, fitted once; `fit` adds a model's own few."""

    others: Sequence[LayoutRows]
    priors: LayoutPriors = field(default_factory=LayoutPriors.physical)

    @cached_property
    def _seconds(self) -> SharedLaw:
        return self._shared(SECONDS, self.priors.seconds)

    @cached_property
    def _memory(self) -> SharedLaw:
        return self._shared(GIBIBYTES, self.priors.memory)

    def _shared(self, law: CountedLaw, physical: LogPrior) -> SharedLaw:
        """Return the prior of the next model and what the law misses on the others."""
        if not self.others:
            return physical, None
        machines = {rows.setting.machine.name for rows in self.others}
        fitted = FittedLaw.fit(law, self.others, physical, pace=PACE if len(machines) > 1 else 0.0)
        coefficients = fitted.theta[: len(law.coefficients)]
        return LogPrior(coefficients, np.minimum(physical.spread, BETWEEN_MODELS)), fitted.residuals

    def shared(self) -> tuple[Floats, Floats]:
        """Return the logarithms of the coefficients of seconds and memory as the other models together have them."""
        return self._seconds[0].centre, self._memory[0].centre

    def fit(self, own: LayoutRows) -> LayoutPredictor:
        """Return forecasts of a model of which these layouts were tried."""
        seconds, memory = self._own(SECONDS, own, *self._seconds), self._own(GIBIBYTES, own, *self._memory)
        return LayoutPredictor(own.setting, seconds, memory)

    def _own(self, law: CountedLaw, own: LayoutRows, prior: LogPrior, residuals: Residuals | None) -> FittedLaw:
        # a law that no other model has corrected misses more
        if self.others or self.priors.models:
            law = replace(law, loss=OWN_LOSS)
        return FittedLaw.fit(law, [own], prior, pace=0.0, others=residuals)
