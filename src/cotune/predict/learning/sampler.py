"""How probable what was seen is under each vector of parameters, and draws of these given what was seen.

Given a vector everything is jointly Gaussian, the curve made straight in pace by its slope. The likelihood is exact up
to that. A is integrated out under a flat prior.

Adaptive importance sampling, then Metropolis steps: each round draws from a normal distribution that was fitted to the
weighted draws of the rounds before; all draws are weighed against the mixture of all proposals. A likelihood is raised
to a power at which enough draws carry weight while it guides the proposals. In the end few draws may carry all weight
(an effective number below 30 in half of the jobs, 1 with long exact curves): steps of Metropolis part them again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from cotune.predict.learning.family import EFFECTS, NAMES, Curves
from cotune.predict.learning.observations import Observations
from cotune.predict.learning.prior import CurvePrior, LogNormals
from cotune.predict.learning.schedules import candidates
from cotune.types import Floats, Ints

FREE = 10.0  # standard deviation of A, in ranges of what was seen: as good as flat
_BEYOND = 1e300  # larger than any square of residuals
_LEAST_NOISE = 1e-4  # of the range of what was seen
# Of that range: how sharply the bounds of the metric hold, for what training ends at and for what it begins with.
_AT_CEILING, _AT_FLOOR = 0.02, 0.2
_ROUNDS, _EACH = 6, 250
_WANTED = 40 + 4 * len(NAMES)  # draws that should carry weight while proposals are fitted
_WIDENED = 0.03  # of the prior's covariance, added to proposals, halved each round
_EXPLORED = 0.2  # of proposals, for shapes as probable as beforehand
_MOVES = 6
_STEP = 0.7  # of a Metropolis step towards a fresh draw of the last proposal, which such steps keep
_IMPOSSIBLE = -1e9


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


@dataclass(frozen=True, eq=False)
class Draws:
    """Vectors of parameters, each with the number of a schedule's shape, and what was seen under each."""

    theta: Floats
    shape: Ints
    given: Given
    evidence: float
    """ln p of what was seen."""


def draws_of(seen: Observations, prior: CurvePrior, count: int, rng: np.random.Generator) -> Draws:
    """Return equally probable draws from the posterior."""
    before = prior.around(seen.features)
    believed = candidates(seen.facts.schedule)[1]
    guess, shares = before, believed
    proposals: list[tuple[LogNormals, Floats]] = []
    theta, shape, logs = np.empty((0, len(NAMES))), np.empty(0, dtype=np.int64), np.empty(0)
    for turn in range(_ROUNDS):
        proposals.append((guess, shares))
        theta = np.vstack([theta, guess.draw(_EACH, rng)])
        shape = np.r_[shape, rng.choice(len(shares), _EACH, p=shares)]
        found = likelihood(theta[-_EACH:], shape[-_EACH:], seen).log
        logs = np.r_[logs, np.where(np.isfinite(found), found, _IMPOSSIBLE)]
        proposed = [one.log_density(theta) + np.log(each[shape]) for one, each in proposals]
        weight = logs + before.log_density(theta) + np.log(believed[shape]) - np.logaddexp.reduce(proposed, axis=0)
        tempered = _tempered(weight, _WANTED)
        mean = tempered @ theta
        off = theta - mean
        covariance = (off * tempered[:, None]).T @ off
        guess = LogNormals((1.0,), (mean,), (covariance + _WIDENED * 0.5**turn * prior.covariance,))
        seen_shares = np.bincount(shape, tempered, minlength=len(shares))
        shares = _EXPLORED * believed + (1 - _EXPLORED) * seen_shares
    evidence = float(np.logaddexp.reduce(weight) - np.log(len(weight)) + np.log(_ROUNDS))
    edges = np.cumsum(np.exp(weight - weight.max()))
    evenly = edges[-1] * (rng.random() + np.arange(count)) / count
    chosen = np.minimum(np.searchsorted(edges, evenly), len(edges) - 1)
    theta, shape = theta[chosen], shape[chosen]
    now = likelihood(theta, shape, seen).log + before.log_density(theta) - guess.log_density(theta)
    for turn in range(_MOVES if len(shares) == 1 else 2 * _MOVES):
        wished, other = theta, shape
        if len(shares) > 1 and turn % 2 == 0:  # every second move is to another shape
            other = rng.choice(len(shares), count, p=believed)
        else:
            wished = mean + np.sqrt(1 - _STEP**2) * (theta - mean) + _STEP * (guess.draw(count, rng) - mean)
        then = likelihood(wished, other, seen).log + before.log_density(wished) - guess.log_density(wished)
        taken = np.log(rng.random(count)) < np.where(np.isfinite(then), then, _IMPOSSIBLE) - now
        theta, shape = np.where(taken[:, None], wished, theta), np.where(taken, other, shape)
        now = np.where(taken, then, now)
    return Draws(theta, shape, likelihood(theta, shape, seen), evidence)


def _tempered(log: Floats, wanted: float) -> Floats:
    """Return weights at the largest power, at most 1, at which so many draws carry weight."""
    low, high = 0.0, 2.0
    for _ in range(30):
        power = (low + high) / 2
        weights = np.exp(power * (log - log.max()))
        effective = weights.sum() ** 2 / (weights**2).sum()
        low, high = (power, high) if effective > wanted else (low, power)
    weights = np.exp(min(low, 1.0) * (log - log.max()))
    return np.asarray(weights / weights.sum())
