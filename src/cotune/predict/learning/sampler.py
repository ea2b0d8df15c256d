"""Draws of the parameters given what was seen: adaptive importance sampling, then Metropolis steps.

Each round draws from a normal distribution that was fitted to the weighted draws of the rounds before; all draws are
weighed against the mixture of all proposals. A likelihood is raised to a power at which enough draws carry weight while
it guides the proposals. In the end few draws may carry all weight (an effective number below 30 in half of the jobs, 1
with long exact curves): steps of Metropolis part them again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotune.predict.learning.family import NAMES
from cotune.predict.learning.likelihood import Given, likelihood
from cotune.predict.learning.observations import Observations
from cotune.predict.learning.prior import CurvePrior, LogNormals
from cotune.predict.learning.schedules import candidates
from cotune.types import Floats, Ints

_ROUNDS, _EACH = 6, 250
_WANTED = 40 + 4 * len(NAMES)  # draws that should carry weight while proposals are fitted
_WIDENED = 0.03  # of the prior's covariance, added to proposals, halved each round
_EXPLORED = 0.2  # of proposals, for shapes as probable as beforehand
_MOVES = 6
_STEP = 0.7  # of a Metropolis step towards a fresh draw of the last proposal, which such steps keep
_IMPOSSIBLE = -1e9


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
    chosen = _resampled(weight, count, rng)
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


def _resampled(weight: Floats, count: int, rng: np.random.Generator) -> Ints:
    shares = np.exp(weight - weight.max())
    edges = np.cumsum(shares) / shares.sum()
    return np.minimum(np.searchsorted(edges, (rng.random() + np.arange(count)) / count), len(edges) - 1)


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
