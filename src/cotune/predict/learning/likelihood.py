"""How probable what was seen is under each vector of parameters.

Given a vector everything is jointly Gaussian, the curve made straight in pace by its slope. The likelihood is exact up
to that. A is integrated out under a flat prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from cotune.predict.learning.family import EFFECTS, Curves
from cotune.predict.learning.observations import Observations
from cotune.types import Floats, Ints

FREE = 10.0  # standard deviation of A, in ranges of what was seen: as good as flat
_BEYOND = 1e300  # larger than any square of residuals
_LEAST_NOISE = 1e-4  # of the range of what was seen
# Of that range: how sharply the bounds of the metric hold, for what training ends at and for what it begins with.
_AT_CEILING, _AT_FLOOR = 0.02, 0.2


@dataclass(frozen=True, eq=False)
class Given:
    """What was seen under each vector: log likelihood, and what draws of the future need."""

    log: Floats
    curves: Curves
    loads: dict[str, Floats]
    noise: Floats
    """Variance of each value that was seen."""

    mean: Floats
    covariance: Floats


def likelihood(theta: Floats, shape: Ints, seen: Observations) -> Given:
    """Return the log likelihood of vectors (rows), each with the number of its schedule's shape."""
    curves = Curves(theta, shape, seen)
    rate = seen.rate[shape]
    progress = curves.progress(seen.sites.ln_batch, seen.ln_progress[shape])
    slope, mean = curves.slope(progress), curves.values(progress, rate)
    loads = curves.loads(slope, rate)
    one = curves.noise(slope, rate) + (_LEAST_NOISE * seen.scale) ** 2
    noise = one / seen.count + seen.rounding
    covariance = _covariance(curves, loads, seen)
    places = np.arange(len(seen.value))
    covariance[:, places, places] += noise
    roots, white, ones = _factored(covariance, seen.value - seen.value.max() - mean)
    log = -0.5 * (white**2).sum(axis=1) - np.log(roots).sum(axis=1)
    log -= 0.5 * (seen.free * np.log(one) + seen.scatter / one).sum(axis=1)
    ends = seen.value.max() + (FREE * seen.scale) ** 2 * (white * ones).sum(axis=1)  # the posterior mean of A
    return Given(log + _bounds(curves, ends, seen), curves, loads, noise, mean, covariance)


def _covariance(curves: Curves, loads: dict[str, Floats], seen: Observations) -> Floats:
    total = np.full((len(loads["pace"]), len(seen.value), len(seen.value)), (FREE * seen.scale) ** 2)
    for moved, load in loads.items():
        if moved == "annealed" and (seen.rate == 1).all():
            continue
        effects = [(name, kernel) for name, kernel, what in EFFECTS if what == moved]
        variances = np.hstack([curves.scale_of[name] for name, _ in effects]) ** 2
        kernels = np.stack([seen.kernels[kernel].ravel() for _, kernel in effects])
        mixed = (variances @ kernels).reshape(total.shape)
        mixed *= load[:, :, None]
        mixed *= load[:, None, :]
        total += mixed
    return total


def _factored(covariance: Floats, off: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the diagonal of the Cholesky factor L, and the solutions of L z = residuals and of L z = 1.

    Both are rows of the factor of a matrix with two more rows: NumPy has no triangular solver for many matrices.
    """
    count, places = off.shape
    whole = np.zeros((count, places + 2, places + 2))
    whole[:, :-2, :-2] = covariance
    whole[:, -2, :-2], whole[:, -1, :-2] = off, 1.0
    whole[:, -2, -2] = whole[:, -1, -1] = _BEYOND
    low = np.linalg.cholesky(whole)
    return np.diagonal(low[:, :-2, :-2], axis1=1, axis2=2), low[:, -2, :-2], low[:, -1, :-2]


def _bounds(curves: Curves, ends: Floats, seen: Observations) -> Floats:
    """Return the log probability that what training ends at, and begins with, keeps to the metric's bounds."""
    log = np.zeros(len(ends))
    if np.isfinite(seen.facts.ceiling) and not seen.at_ceiling:
        log += log_ndtr((seen.facts.ceiling - ends) / (_AT_CEILING * seen.scale))
    if np.isfinite(seen.facts.floor):
        log += log_ndtr((ends - curves.g[:, 0] - seen.facts.floor) / (_AT_FLOOR * seen.scale))
    return log
