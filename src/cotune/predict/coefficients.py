"""The coefficients of a law that is a sum of terms, by non-negative least squares on the relative error.

    min  sum_i (1 - sum_j x_j s_ij)^2  +  ridge^2 sum_j (x_j - least_j)^2           x_j >= least_j

s_ij is term j of measurement i over what was measured there. Each coefficient is counted in the size of its term
(root mean square), so `least` and `ridge` are shares of a typical measurement; the ridge shares out what the
measurements cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from cotune.space import Configs
from cotune.types import Floats


@dataclass(frozen=True, slots=True)
class SumOfTerms:
    """A fitted law: a step takes the sum of its terms, each times its coefficient, and `least` at any rate."""

    terms: Callable[[Configs], Floats]  # one row for each config
    coefficients: Floats
    examples: int
    least: float = 0.0

    def predict(self, configs: Configs) -> Floats:
        """Return the seconds of an epoch."""
        steps = np.maximum(self.terms(configs) @ self.coefficients, self.least)
        return np.asarray(steps * configs.steps(self.examples))


def fit_coefficients(shares: Floats, least: Floats, ridge: float = 0.0) -> tuple[Floats, float]:
    """Return the coefficients, and the norm of what they miss."""
    sizes = np.sqrt((shares**2).mean(axis=0))
    sizes[sizes == 0] = 1.0  # no measurement has this term
    scaled = shares / sizes
    rows = np.vstack([scaled, ridge * np.eye(len(sizes))])
    above, norm = nnls(rows, np.concatenate([1 - scaled @ least, np.zeros(len(sizes))]))
    return np.asarray((least + above) / sizes, dtype=np.float64), float(norm)
