"""The coefficients of a law that is a sum of terms, by non-negative least squares on the relative error.

    min  sum_i (1 - sum_j x_j s_ij)^2  +  ridge^2 sum_j (x_j - least_j)^2           x_j >= least_j

s_ij is term j of measurement i over what was measured there. Each coefficient is counted in the size of its term
(root mean square), so `least` and `ridge` are shares of a typical measurement; the ridge shares out what the
measurements cannot tell apart.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from cotune.types import Floats


def fit_coefficients(shares: Floats, least: Floats, ridge: float = 0.0) -> tuple[Floats, float]:
    """Return the coefficients, and the norm of what they miss."""
    sizes = np.sqrt((shares**2).mean(axis=0))
    sizes[sizes == 0] = 1.0  # no measurement has this term
    scaled = shares / sizes
    rows = np.vstack([scaled, ridge * np.eye(len(sizes))])
    above, norm = nnls(rows, np.concatenate([1 - scaled @ least, np.zeros(len(sizes))]))
    return np.asarray((least + above) / sizes, dtype=np.float64), float(norm)
