"""How likely a run under way is to meet its goal: draws of its learning curve, given its job and its own evaluations.

To the posterior of learning curves (`predict/learning`) the run is one more run of its job, told its length. Each draw
is a whole future curve, and needs the epochs of the first evaluation to come that meets the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from cotune.predict.learning import CurvePrior, first_met
from cotune.predict.learning.job_runs import posterior_of, run_of
from cotune.types import Floats, Job, Quantity, Sample

PACE = 0.1  # deviation of ln seconds of the epochs to come, once a run has shown its own: set by hand on our own runs
_INSTANT = 1e-9  # seconds, or of the epochs between two evaluations
_MOST_EVALUATIONS = 200


@dataclass(frozen=True, slots=True)
class RunClock:
    """What a run has taken by now, its seconds an epoch and how sure they are, and when it is to end, if ever."""

    spent: float
    epoch_seconds: float
    deadline: float | None
    spread: float = PACE  # of ln epoch_seconds


@dataclass(frozen=True)
class RunBelief:
    """The epochs that a run may need in all, infinite where it never arrives, and the weight of each."""

    needed: Floats
    weights: Floats
    done: float

    @classmethod
    def of(cls, needed: Floats, done: float) -> RunBelief:
        """Return the belief of equally probable draws."""
        return cls(needed, np.full(len(needed), 1 / len(needed)), done)

    def odds(self, clock: RunClock) -> float:
        """Return the chance that the target is met, and in time."""
        able = np.isfinite(self.needed)
        weights = self.weights[able]
        if clock.deadline is not None:
            left = np.maximum(self.needed[able] - self.done, 0.0) * clock.epoch_seconds
            allowed = max(clock.deadline - clock.spent, _INSTANT)
            weights = weights * ndtr(np.log(allowed / np.maximum(left, _INSTANT)) / clock.spread)
        return float(min(weights.sum(), 1.0))

    def end(self, cap: float) -> Quantity:
        """Return the epochs after which the run ends: at its target, or at its cap."""
        low, mid, high = (min(self.quantile(share), cap) for share in (0.1, 0.5, 0.9))
        return Quantity(low, mid, high, "measured", "epochs")

    def quantile(self, share: float) -> float:
        """Return the epochs that such a share of runs like this needs at most."""
        order = np.argsort(self.needed)
        place = int(np.searchsorted(np.cumsum(self.weights[order]), share))
        return float(self.needed.item(order.item(min(place, len(order) - 1))))


def believe(
    job: Job,
    others: Sequence[Sample],
    run: Sample,
    *,
    target: float,
    length: float,
    prior: CurvePrior | None = None,
) -> RunBelief:
    """Return what is believed of a run that has been evaluated, and was told its length, after other samples."""
    epochs = evaluations_to_come([point.epoch for point in run.curve if point.epoch > 0], run.epochs, length)
    if not len(epochs) or not len(run_of(job, run).epochs):  # it is over, or shows no numbers: it has diverged
        return RunBelief.of(np.array([np.inf]), run.epochs)
    posterior = posterior_of(job, [*others, run], prior)
    paths = posterior.paths(run.config.global_batch, epochs, length=length, run=posterior.seen.places[-1])
    return RunBelief.of(first_met(paths, epochs, job.sign * target), run.epochs)


def evaluations_to_come(evaluated: Sequence[float], done: float, length: float) -> Floats:
    """Return the epochs of the evaluations to come of a run that was evaluated after some epochs.

    Very many are thinned: 60,000 took 6 s and 1.6 GB.
    """
    last = evaluated[-1]
    gap = max(float(np.median(np.diff([0.0, *evaluated]))), (length - last) / _MOST_EVALUATIONS)
    count = np.ceil((length - last) / gap - _INSTANT)
    epochs = np.minimum(last + gap * np.arange(1.0, count + 1), length)
    return np.asarray(epochs[epochs > done + gap * _INSTANT])
