"""What a law of time leaves over, smoothed: a Gaussian process on the log residual.

    ln t(x) = ln law(x) + k(x, X) (K + s^2 I)^-1 (ln t - ln law)(X)
    k(x, x') = v exp(-|x - x'|^2 / 2)    x = (log2 b / 2, log2 n, log2 N, [n > 1])

Near a sample the law is corrected by what was measured there, far away it stands as it is. n
workers on N nodes are close when both numbers are: a node border is a step, not a slope. The
kernel is a product of one in b and one in n, so all pairs of a grid cost one small product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from cotune.predict import SecondsModel
from cotune.predict._samples import Timings
from cotune.space import Configs
from cotune.types import Floats, Ints

_LEAST = 0.03  # deviation of the residual and of the clock, at least
_ROUGH = 0.2  # share of the residual that is not smooth


@dataclass(frozen=True, slots=True)
class Smoothed:
    """A law of time with its residual added."""

    law: SecondsModel
    per_node: int | None
    batch: Floats  # of the samples
    workers: Floats
    pull: Floats  # (K + s^2 I)^-1 residual

    @classmethod
    def of(cls, law: SecondsModel, measured: Timings, per_node: int | None) -> Smoothed:
        """Return a law corrected by its residuals at the configs that were measured."""
        residual = np.log(measured.seconds / law.predict(measured.configs))
        variance = max(float(np.mean(residual**2)), _LEAST**2)
        batch = _batch_place(measured.configs.batch_size)
        workers = _worker_place(measured.configs.workers, per_node)
        kernel = variance * _near(batch, batch) * _near(workers, workers)
        noise = (_LEAST + _ROUGH * np.sqrt(variance)) ** 2
        return cls(law, per_node, batch, workers, variance * _solve(kernel + noise * np.eye(len(residual)), residual))

    def predict(self, configs: Configs) -> Floats:
        batches, row = np.unique(configs.batch_size, return_inverse=True)
        counts, column = np.unique(configs.workers, return_inverse=True)
        by_batch = _near(_batch_place(batches), self.batch)
        by_workers = _near(_worker_place(counts, self.per_node), self.workers)
        added = np.einsum("bs,s,ns->bn", by_batch, self.pull, by_workers)
        result: Floats = self.law.predict(configs) * np.exp(added[row, column])
        return result


def _solve(matrix: Floats, right: Floats) -> Floats:
    """Return the solution of a well-conditioned positive system, by conjugate gradients.

    A threaded factorisation waits for cores that training may be using: a hundred times
    longer on a busy machine.
    """
    product = LinearOperator(matrix.shape, matvec=lambda v: np.einsum("ij,j->i", matrix, v), dtype=np.float64)
    return np.asarray(cg(product, right, rtol=1e-9)[0])


def _batch_place(batch: Ints) -> Floats:
    return np.log2(np.maximum(batch, 1))[:, None] / 2


def _worker_place(workers: Ints, per_node: int | None) -> Floats:
    nodes = np.ceil(workers / per_node) if per_node else np.ones(len(workers))
    return np.stack([np.log2(workers), np.log2(nodes), workers > 1], axis=1)


def _near(one: Floats, other: Floats) -> Floats:
    """Return exp(-distance^2 / 2) of every pair of rows."""
    result: Floats = np.exp(-0.5 * ((one[:, None, :] - other[None, :, :]) ** 2).sum(axis=2))
    return result
