"""Coefficients from few measurements: the most likely ones given priors, by damped Gauss-Newton.

    minimise  sum_i rho(ln predicted_i - ln measured_i) / s^2  +  sum_j ((theta_j - prior_j) / spread_j)^2

theta are logarithms, so that every coefficient stays positive. rho is near r^2 for small r and has two sides: a run
that was slower than the law says says little, and much slower hardly more (a straggler, a busy network: Cauchy's
loss); one that was faster says that the law is wrong (pseudo-Huber).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cotune.types import Floats

Logarithms = Callable[[Floats], Floats]  # of the predicted quantity, at logarithms of coefficients


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A positive coefficient of a law: its name, what it is before anything is measured, and how sure that is."""

    name: str
    prior: float
    spread: float  # standard deviation of its logarithm


@dataclass(frozen=True, slots=True)
class RobustLoss:
    """Where the loss bends, in logarithms: Cauchy's for runs above what is predicted, pseudo-Huber for those below."""

    above: float
    below: float
    noise: float

    def weights(self, residuals: Floats) -> Floats:
        """Return how much each residual (ln predicted - ln measured) counts, 1 for a small one."""
        slow = 1 / (1 + (residuals / self.above) ** 2)
        return np.where(residuals < 0, slow, 1 / np.sqrt(1 + (residuals / self.below) ** 2))

    def total(self, residuals: Floats) -> float:
        slow = self.above**2 * np.log1p((residuals / self.above) ** 2)
        fast = 2 * self.below**2 * (np.sqrt(1 + (residuals / self.below) ** 2) - 1)
        return float(np.sum(np.where(residuals < 0, slow, fast)) / self.noise**2)


@dataclass(frozen=True, slots=True)
class LogPrior:
    """Logarithms of coefficients with their standard deviations."""

    centre: Floats
    spread: Floats

    @classmethod
    def of(cls, coefficients: Sequence[Coefficient]) -> LogPrior:
        return cls(
            np.log([one.prior for one in coefficients]), np.array([one.spread for one in coefficients], dtype=float)
        )


_STEP = 1e-4  # of a logarithm, for differences
_ROUNDS = 60


def most_likely(law: Logarithms, measured: Floats, prior: LogPrior, loss: RobustLoss) -> Floats:
    """Return the logarithms of the coefficients that explain what was measured best, given the prior."""
    target = np.log(measured)

    def objective(theta: Floats) -> float:
        return loss.total(law(theta) - target) + float(np.sum(((theta - prior.centre) / prior.spread) ** 2))

    theta: Floats = prior.centre.copy()
    damping = 1e-3
    if not len(measured):
        return theta
    current = objective(theta)
    for _ in range(_ROUNDS):
        values, slopes = law(theta), slopes_of(law, theta)
        weights = loss.weights(values - target) / loss.noise**2
        curvature = slopes.T @ (weights[:, None] * slopes) + np.diag(1 / prior.spread**2)
        gradient = slopes.T @ (weights * (values - target)) + (theta - prior.centre) / prior.spread**2
        for _ in range(8):
            move = -np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), gradient)
            candidate = theta + np.clip(move, -1, 1)
            value = objective(candidate)
            if value < current:
                break
            damping *= 5
        else:
            return theta
        gained, theta, current, damping = current - value, candidate, value, max(damping / 5, 1e-9)
        if gained < 1e-4 * current:
            return theta
    return theta


def slopes_of(law: Logarithms, theta: Floats) -> Floats:
    """Return how fast the logarithms of a law grow with those of its coefficients, (rows, coefficients)."""
    values = law(theta)
    return np.stack([(law(theta + move) - values) / _STEP for move in _STEP * np.eye(len(theta))], axis=1)
