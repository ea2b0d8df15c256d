"""What a law misses, learnt from layouts that are similar: a Gaussian process over layouts of any models and machines.

    ln measured = ln law + r        cov(r, r') = a^2 M(d)        d^2 = sum_j ((x_j - x'_j) / s_j)^2

M is Matern's correlation of order 3/2. x are doublings (width of the model, tokens of a sequence and of a micro-batch,
degrees, micro-batches, nodes, speed of the device) and the choices of sharding and recomputing. A run far from the law
(a straggler) has its noise enlarged by the weight that the robust fit gave it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cotune.modelling.layouts.layout import Layouts
from cotune.modelling.layouts.setting import Setting
from cotune.predict.process import matern3
from cotune.types import Floats

EIGHTY = 1.28  # deviations of a normal distribution within which 80 % of it lie
_NORMAL_ROWS = 10.0  # how many similar rows it takes until their tails count as much as a normal distribution's
_NOISE = 0.03  # of one measurement, as a deviation of its logarithm
# Distances at which layouts say about half of what a twin says, chosen with one model of each table left out: doublings
# of the width, the sequence, tokens of a micro-batch, tp, pp, micro-batches, nodes and device speed; shard, recompute.
_SCALES = np.array([1.5, 3.0, 2.0, 1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 1.0])
POINT_AXES = len(_SCALES)


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


def similarity(one: Floats, other: Floats) -> Floats:
    """Return Matern's 3/2 correlation of points (rows) with others (columns)."""
    squares = np.sum(one**2, axis=1)[:, None] + np.sum(other**2, axis=1)[None, :] - 2 * one @ other.T
    return matern3(np.sqrt(np.maximum(squares, 0)))


@dataclass(frozen=True)
class Residuals:
    """The process of what a law misses, given rows of which that is known."""

    amplitude: float
    points: Floats
    misses: Floats  # ln measured - ln law
    weights: Floats  # of each row in the robust fit, 1 for one that is near the law

    def and_then(self, other: Residuals) -> Residuals:
        """Return the process of these rows and others."""
        return Residuals(
            self.amplitude,
            np.concatenate([self.points, other.points]),
            np.concatenate([self.misses, other.misses]),
            np.concatenate([self.weights, other.weights]),
        )

    @cached_property
    def _precision(self) -> Floats:
        """Return the inverse of the covariance of the rows."""
        covariance = self._covariance(self.points, self.points) + np.diag(_NOISE**2 / self.weights)
        return np.asarray(np.linalg.inv(covariance), dtype=np.float64)

    def expected(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the mean of what is missed at points, and its variance, one measurement's noise included."""
        shared = self._covariance(points, self.points)
        explained = np.sum((shared @ self._precision) * shared, axis=1)
        return shared @ (self._precision @ self.misses), np.maximum(self.amplitude**2 - explained, 0.0) + _NOISE**2

    @cached_property
    def _surprises(self) -> Floats:
        """Return by how many deviations each row is missed when it is predicted from all the others."""
        diagonal = np.diag(self._precision)
        missed = (self._precision @ self.misses) / diagonal
        # a straggler's own noise was enlarged; for the next run of this kind it is not known whether it straggles
        variance = 1 / diagonal - _NOISE**2 / self.weights + _NOISE**2
        return np.asarray(missed / np.sqrt(variance))

    def tails(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the deviations below and above the expected between which 80 % of similar layouts lie.

        Few rows say little of tails: the normal distribution's counts as `_NORMAL_ROWS` similar rows.
        """
        if not len(self.misses):
            return np.full(len(points), -EIGHTY), np.full(len(points), EIGHTY)
        similar = similarity(points, self.points) ** 2
        rows = similar.sum(axis=1)
        order = np.argsort(self._surprises)
        summed = np.cumsum(similar[:, order], axis=1) / np.maximum(rows, 1e-12)[:, None]
        low, high = (self._surprises[order][np.argmax(summed >= share - 1e-9, axis=1)] for share in (0.1, 0.9))
        share = rows / (rows + _NORMAL_ROWS)
        return share * np.minimum(low, 0) - (1 - share) * EIGHTY, share * np.maximum(high, 0) + (1 - share) * EIGHTY

    def covariance(self, points: Floats) -> Floats:
        """Return the covariance of what is missed at points."""
        shared = self._covariance(points, self.points)
        return np.asarray(self._covariance(points, points) - shared @ self._precision @ shared.T)

    def _covariance(self, one: Floats, other: Floats) -> Floats:
        return np.asarray(self.amplitude**2 * similarity(one, other))
