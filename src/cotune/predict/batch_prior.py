"""What other jobs say of epochs over the global batch B, before a job has been trained at several.

    epochs(B) ~ 1 + B / Bc + Bd / B        Bc = critical x B'             where the learning rate grows with the batch
                                              = critical x sqrt(B' D)     at a fixed rate, D: examples in an epoch

B' is the largest batch that was measured. Scaled or tuned rates are wasted only beyond the largest batches that
people train; at a fixed rate a step of a large batch goes no further than one of a small batch, so that large ones
take as many steps and ever more epochs, the earlier the fewer steps an epoch has. A job of which nothing is known
counts as scaled.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotune.types import Job


@dataclass(frozen=True, slots=True)
class BatchPrior:
    """Where the pace of a job is expected to change with the batch, and how sure that is."""

    critical: float = 4.0
    small: float = 1 / 32  # Bd over the smallest batch that was measured
    weight: float = 0.01  # of a squared logarithm, in shares of the squared error
    examples: float | None = None  # D, at a fixed rate

    def critical_batch(self, largest: float) -> float:
        """Return Bc where batches up to a largest were measured."""
        return float(self.critical * (largest if self.examples is None else (largest * self.examples) ** 0.5))


USUAL = BatchPrior()
# Of a fixed rate, the best of 0.03, 0.05, 0.1 and 0.3 that is better than USUAL on every source; 0.5 of the largest
# batch is for jobs without a number of examples.
_FIXED, _FIXED_ALONE = 0.1, 0.5


def batch_prior(job: Job) -> BatchPrior:
    """Return what is expected of a job, by how its learning rate follows the batch."""
    if job.scaling != "fixed":
        return USUAL
    if job.examples is None:
        return BatchPrior(_FIXED_ALONE)
    return BatchPrior(_FIXED, examples=job.examples * job.counting.parts)
