"""What a law misses, learnt from layouts that are similar: a Gaussian process over layouts of any models and machines.

    ln measured = ln law + r        cov(r, r') = a^2 M(d / l)        d^2 = sum_j ((x_j - x'_j) / s_j)^2

M is Matern's correlation of order 3/2. x are doublings (width of the model, tokens of a sequence and of a micro-batch,
degrees, micro-batches, nodes, speed of the device) and the choices of sharding and recomputing. The amplitude a, the
noise of one run and the reach l maximise the marginal likelihood times log-normal priors (Rasmussen and Williams, 2006,
chapter 5). A run far from what the process expects there (a straggler) has its noise enlarged: where all similar runs
stall, a stalled run is no straggler.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import minimize

from cotune.modelling.layouts.fitting import RobustLoss
from cotune.modelling.layouts.layout import Layouts
from cotune.modelling.layouts.setting import Setting
from cotune.predict.predictors.gaussian import REACH_WIDTH, TOGETHER_WIDTH, matern3
from cotune.predict.starts import PRIOR
from cotune.types import Floats

EIGHTY = 1.28  # deviations of a normal distribution within which 80 % of it lie
_NORMAL_ROWS = 10.0  # how many similar rows it takes until their tails count as much as a normal distribution's
_TURNS = 3  # of reweighting before and after the scales are fitted
# Distances at which layouts say about half of what a twin says, chosen with one model of each table left out: doublings
# of the width, the sequence, tokens of a micro-batch, tp, pp, micro-batches, nodes and device speed; shard, recompute.
_SCALES = np.array([1.5, 3.0, 2.0, 1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 1.0])
POINT_AXES = len(_SCALES)
# Centres of the priors of amplitude, noise and reach, and their deviations. Among 0.12, 0.16 and 0.2 the amplitude was
# chosen by coverage and by errors on few nodes, with each model of the playbook left out.
_PRIOR, _WIDTHS = np.log([0.16, PRIOR.shared, 1.0]), np.array([TOGETHER_WIDTH, PRIOR.width, REACH_WIDTH])


def points_of(layouts: Layouts, setting: Setting) -> Floats:
    """Return layouts as points, in units of the distances over which they are similar."""
    model, machine = setting.model, setting.machine
    ones = np.ones(len(layouts))
    doublings = np.log2(
        (
            model.hidden * ones,
            model.seq_len * ones,
            model.seq_len * layouts.micro_batch,
            layouts.tp,
            layouts.pp,
            layouts.accumulate,
            np.maximum(layouts.gpus / machine.per_node, 1),
            machine.flops * ones,
        )
    )
    return np.asarray(np.vstack([doublings, layouts.shard, layouts.recompute]).T / _SCALES)


def similarity(one: Floats, other: Floats, reach: float = 1.0) -> Floats:
    """Return Matern's 3/2 correlation of points (rows) with others (columns)."""
    squares = np.sum(one**2, axis=1)[:, None] + np.sum(other**2, axis=1)[None, :] - 2 * one @ other.T
    return matern3(np.sqrt(np.maximum(squares, 0)) / reach)


@dataclass(frozen=True)
class Residuals:
    """The process of what a law misses, given rows of which that is known."""

    scales: Floats  # logarithms of the amplitude, of one run's noise, and of the reach
    points: Floats
    misses: Floats  # ln measured - ln law
    weights: Floats  # of each row, 1 for one that is near what the process expects

    @classmethod
    def fit(cls, points: Floats, misses: Floats, loss: RobustLoss) -> Residuals:
        """Return the process of these rows, its scales the most likely ones."""
        process = cls(_PRIOR, points, misses, loss.weights(-misses))
        if not len(misses):
            return process
        weighted = process._reweighted(loss)
        options = {"initial_simplex": _PRIOR + np.vstack([np.zeros(3), 0.5 * np.eye(3)]), "maxfev": 50}
        bounds = np.stack([_PRIOR - 3 * _WIDTHS, _PRIOR + 3 * _WIDTHS], axis=1)
        found = minimize(weighted._surprise, _PRIOR, method="Nelder-Mead", bounds=bounds, options=options)
        return replace(weighted, scales=found.x)._reweighted(loss)

    def _reweighted(self, loss: RobustLoss) -> Residuals:
        """Return the process with the weight that each row has by its distance from what is expected there."""
        process = self
        for _ in range(_TURNS):
            left = process._variances * (process._precision @ process.misses)
            process = replace(process, weights=loss.weights(-left))
        return process

    def _surprise(self, scales: Floats) -> float:
        """Return minus the logarithm of the marginal likelihood of the rows times the prior, at other scales."""
        covariance = replace(self, scales=scales)._noisy_covariance
        explained = self.misses @ np.linalg.solve(covariance, self.misses)
        return 0.5 * float(explained + np.linalg.slogdet(covariance)[1] + np.sum(((scales - _PRIOR) / _WIDTHS) ** 2))

    def and_then(self, points: Floats, misses: Floats, weights: Floats) -> Residuals:
        """Return the process of these rows and others."""
        pairs = (self.points, points), (self.misses, misses), (self.weights, weights)
        return Residuals(self.scales, *map(np.concatenate, pairs))

    @cached_property
    def _variances(self) -> Floats:
        """Return the variance of the noise of each row."""
        return np.asarray(np.exp(2 * self.scales[1]) / self.weights)

    @cached_property
    def _precision(self) -> Floats:
        """Return the inverse of the covariance of the rows."""
        return np.asarray(np.linalg.inv(self._noisy_covariance), dtype=np.float64)

    @property
    def _noisy_covariance(self) -> Floats:
        return np.asarray(self._covariance(self.points, self.points) + np.diag(self._variances))

    def expected(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the mean of what is missed at points, and its variance without the noise of a run."""
        shared = self._covariance(points, self.points)
        explained = np.sum((shared @ self._precision) * shared, axis=1)
        return shared @ (self._precision @ self.misses), np.maximum(np.exp(2 * self.scales[0]) - explained, 0.0)

    def tail(self, points: Floats, side: int) -> Floats:
        """Return how far the upper (side 1) or lower (-1) tenth of similar rows lies, predicted from all the others.

        Few rows say little of tails: the normal distribution of the noise counts as `_NORMAL_ROWS` similar rows.
        """
        missed = side * (self._precision @ self.misses) / np.diag(self._precision)
        order = np.argsort(missed)
        similar = np.cumsum(similarity(points, self.points[order], np.exp(self.scales[2])) ** 2, axis=1)
        rows = np.max(similar, axis=1, initial=1e-12)
        tenth = np.append(missed[order], 0.0)[np.sum(similar < 0.9 * rows[:, None] - 1e-9, axis=1)]
        normal = EIGHTY * np.exp(self.scales[1])
        return np.asarray((rows * np.maximum(tenth, 0) + _NORMAL_ROWS * normal) / (rows + _NORMAL_ROWS))

    def covariance(self, points: Floats) -> Floats:
        """Return the covariance of what is missed at points."""
        shared = self._covariance(points, self.points)
        return np.asarray(self._covariance(points, points) - shared @ self._precision @ shared.T)

    def _covariance(self, one: Floats, other: Floats) -> Floats:
        return np.asarray(np.exp(2 * self.scales[0]) * similarity(one, other, np.exp(self.scales[2])))
