"""What the law misses, learnt from layouts that are alike: a Gaussian process over layouts, shared by models.

    ln measured = ln law + r        cov(r, r') = a^2 M(d) (rho if the models differ)
    d^2 = sum_j ((x_j - x'_j) / s_j)^2   M Matern 3/2; x in doublings of tp, pp, micro-batch, nodes, m; shard, recompute

A run far from the law (a straggler) has its noise enlarged by the weight the robust fit gave it. Other models' rows are
factored once; a model's own few rows are added by a Schur complement, so measuring one more costs little.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cotune.modelling.layouts.layout import Layouts
from cotune.types import Floats, Ints


@dataclass(frozen=True, slots=True)
class ResidualConstants:
    """Of one process; chosen by hand with one model left out in turn."""

    amplitude: float = 0.12
    noise: float = 0.03
    other_model: float = 0.7  # rho
    # of tp, pp, micro-batch, nodes, m, shard, recompute
    scales: tuple[float, ...] = (1.0, 1.0, 2.0, 2.0, 3.0, 1.0, 1.0)


OF_SECONDS = ResidualConstants()
# a replica more changes little of what one device holds
OF_MEMORY = ResidualConstants(amplitude=0.15, scales=(1.0, 1.0, 2.0, 8.0, 6.0, 1.0, 1.0))


def features(layouts: Layouts, per_node: int, constants: ResidualConstants) -> Floats:
    """Return layouts as points, in units of the process's scales."""
    nodes = np.maximum(layouts.gpus / per_node, 1)
    doublings = np.log2(np.stack([layouts.tp, layouts.pp, layouts.micro_batch, nodes, layouts.accumulate], axis=1))
    return np.asarray(np.column_stack([doublings, layouts.shard, layouts.recompute]) / np.array(constants.scales))


def alike(one: Floats, other: Floats) -> Floats:
    """Return Matern's 3/2 correlation of points (rows) with others (columns)."""
    squares = np.sum(one**2, axis=1)[:, None] + np.sum(other**2, axis=1)[None, :] - 2 * one @ other.T
    far = np.sqrt(3 * np.maximum(squares, 0))
    return np.asarray((1 + far) * np.exp(-far))


@dataclass(frozen=True, slots=True)
class LearntFrom:
    """Points with their residuals (ln measured - ln law), weights in the robust fit, and whose model they are."""

    points: Floats
    residuals: Floats
    weights: Floats
    models: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def noise(self, constants: ResidualConstants) -> Floats:
        return np.asarray(constants.noise**2 / self.weights)


@dataclass(frozen=True)
class OtherModels:
    """The process given other models' rows."""

    seen: LearntFrom
    constants: ResidualConstants

    @cached_property
    def _whitening(self) -> Floats:
        """Return the inverse of the Cholesky factor of the rows' covariance."""
        models = self.seen.models
        same = np.where(models[:, None] == models[None, :], 1.0, self.constants.other_model)
        covariance = self.constants.amplitude**2 * alike(self.seen.points, self.seen.points) * same
        covariance[np.diag_indices_from(covariance)] += self.seen.noise(self.constants)
        return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)))

    @cached_property
    def _whitened(self) -> Floats:
        return np.asarray(self._whitening @ self.seen.residuals)

    @cached_property
    def unexplained(self) -> Floats:
        """Return what is left of the rows' residuals, each predicted from all the others."""
        precision = self._whitening.T @ self._whitening
        return np.asarray((precision @ self.seen.residuals) / np.diag(precision))

    def project(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the mean at points of another model, and their covariance with the rows, whitened."""
        shared = self.constants.amplitude**2 * self.constants.other_model
        whitened = self._whitening @ (shared * alike(self.seen.points, points))
        return np.asarray(whitened.T @ self._whitened), whitened


@dataclass(frozen=True)
class Residuals:
    """The process of one model, given other models' rows and its own."""

    others: OtherModels
    own: LearntFrom

    @cached_property
    def _own(self) -> tuple[Floats, Floats, Floats]:
        """Return the own rows' whitened covariance with the others, the inverse of their own, and what they add."""
        constants = self.others.constants
        mean, whitened = self.others.project(self.own.points)
        own = constants.amplitude**2 * alike(self.own.points, self.own.points) - whitened.T @ whitened
        own[np.diag_indices_from(own)] += self.own.noise(constants)
        inverse = np.asarray(np.linalg.inv(own), dtype=np.float64)
        return whitened, inverse, inverse @ (self.own.residuals - mean)

    def expected(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the mean and standard deviation of the residual at points of the model, noise not included."""
        amplitude = self.others.constants.amplitude
        mean, whitened = self.others.project(points)
        variance = amplitude**2 - np.sum(whitened**2, axis=0)
        if len(self.own.residuals):
            own_whitened, inverse, added = self._own
            shared = amplitude**2 * alike(points, self.own.points) - whitened.T @ own_whitened
            mean = mean + shared @ added
            variance = variance - np.sum((shared @ inverse) * shared, axis=1)
        return mean, np.sqrt(np.maximum(variance, 1e-8))
