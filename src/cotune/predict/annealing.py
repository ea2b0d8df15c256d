"""Schedules that end with the run: every evaluation as a point of the curve of annealed runs.

    rate(e) = peak x r(e / n)                     n: the epochs that a run was told; r: cosine, linear, one cycle
    S(e, n) = n R(e / n),  R(x) = ∫ r             what was learnt, in epochs at the peak rate
    value(e, n) = f(m) - C (m + u0)^-p d(e / n)   d: what of its fall is still to come, 1 at first and 0 at the end

A run of n epochs is not the beginning of a longer one: at the same epoch it has annealed, and the other has not. But
both have learnt as much as an annealed run of

    m = max(S(e, n) / R(1), e) epochs,      which ends at  value(e, n) + C (m + u0)^-p d(e / n)

(while the rate rises less is learnt in an epoch, but more than in proportion: nobody may count on fewer than e; and the
less there is left to learn, the less a fall of the rate gains). A run that has annealed ended as it did: no evaluation
on its way is worth more. Nor does any end lie beyond what the metric can be: of the gap g to that, half is closed at
most as C says, the rest ever slower.
So all evaluations lie on one curve, that of the ends of runs of m epochs, and everything that is known of learning
curves (batches, luck, errors) holds for it. f and C are fitted together: for each of a few u0 and p

    value = A_B - (K_B + C d) (m + u0)^-p         A and K of each global batch B; K and C at least 0

by least squares; C is drawn to `usual` of the range of values while curves hardly tell it, and is no more than that
while no run has seen the end of its fall. What the fit leaves over is the noise of an end. The rest of a run is then
known before it is trained: `way` says how far below its end a run is until then.

Reference: Tissue et al., Scaling law with learning rate annealing, arXiv:2408.11029, 2024, with a rate that is followed
at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from cotune.predict.learning.schedules import candidates, travelled
from cotune.predict.predictors.curve import natural_ceiling
from cotune.predict.samples import trusted
from cotune.progress import whole_units
from cotune.types import Evaluation, Floats, Goal, Job, Sample, Schedule


@dataclass(frozen=True, slots=True)
class AnnealingPrior:
    """What is assumed while curves tell little: chosen on four small networks of our own, all schedules."""

    usual: float = 0.15  # C over the range of values
    weight: float = 0.05  # evaluations that this counts for
    seen: float = 0.3  # of the fall that is left at most, where runs tell what it gains
    noise: float = 0.1  # of an end, over the range of values
    ends: float = 1.0  # evaluations that this counts for
    later: float = 1.6  # times the epochs of a shorter run until a longer one is as good, which no luck explains


PRIOR = AnnealingPrior()
_OFFSETS = np.geomspace(0.02, 5.0, 9)  # u0, over the middle of m
_POWERS = np.geomspace(0.25, 3.0, 7)
_LEAST = 1e-6  # epochs of m that are told apart from none
_COMPLETE = 0.999  # of its length that a run has trained which has annealed


@dataclass(frozen=True, slots=True)
class Annealing:
    """What a job's runs gain by the fall of their rate: C, u0 and p, in the metric with its sign."""

    schedule: str
    gain: float
    ceiling: float = np.inf  # what sign x metric cannot pass
    offset: float = 0.0  # u0, in epochs
    power: float = 0.0  # p
    noise: float = 0.0  # deviation of an end from what is expected of it: where curves are flat, luck is one of level

    def way(self, length: float, epochs: Floats) -> tuple[Floats, Floats]:
        """Return the annealed epochs that a run of a length is worth after some, and how far below those it is."""
        (shape, *_), _ = candidates(self.schedule)
        ln_progress, left = travelled(shape, epochs, np.full(len(epochs), length))
        (at_end,), _ = travelled(shape, np.array([length]), np.array([length]))
        worth = np.maximum(np.maximum(length * np.exp(ln_progress - at_end), epochs), _LEAST)
        return worth, self.gain * left * (worth + self.offset) ** -self.power

    def annealed(self, job: Job, sample: Sample) -> Sample:
        """Return a sample whose evaluations are the ends of annealed runs that have learnt as much."""
        if not sample.curve or not sample.length:
            return sample
        worth, below = self.way(_length(sample), np.array([point.epoch for point in sample.curve]))
        ends = (self._end(job, point.accuracy, float(more)) for point, more in zip(sample.curve, below, strict=True))
        if complete(sample):
            last = sample.curve[-1].accuracy
            ends = (end if job.meets(end, last) else last for end in ends)
        curve = tuple(
            Evaluation(float(epochs), end, point.seconds)
            for point, epochs, end in zip(sample.curve, worth, ends, strict=True)
        )
        return replace(sample, curve=curve, epochs=curve[-1].epoch, accuracy=curve[-1].accuracy)

    def _end(self, job: Job, accuracy: float, more: float) -> float:
        """Return what an evaluation is in the end that gains so much by then, short of what the metric can be."""
        gap = self.ceiling - job.sign * accuracy
        beyond = more - gap / 2
        gained = more if beyond <= 0 else gap / 2 * (1 - np.expm1(-2 * beyond / gap)) if gap > 0 else 0.0
        return accuracy + job.sign * float(gained)


def falling(job: Job, samples: Sequence[Sample]) -> str | None:
    """Return how a job's rate falls to the end of each run: as is said, or as samples show; None where it does not."""
    if contradiction(job, samples):
        return "cosine"
    return job.schedule if job.schedule and Schedule.read(job.schedule).ends_with_run else None


def continuable(job: Job, goal: Goal, samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return what a run for a goal may go on from: where the rate falls to the end, what met it or was told as long."""
    if falling(job, trusted(samples)) is None:
        return samples
    return [one for one in samples if job.reached(goal.target, one) or one.length == whole_units(job, goal.cap)]


def contradiction(job: Job, samples: Sequence[Sample]) -> str:
    """Return the words for two runs of one recipe of which the longer cannot have begun like the shorter, if any.

    Where the schedule is known nothing contradicts it.
    """
    if job.schedule and Schedule.read(job.schedule).kind != "unknown":
        return ""
    runs = [sample for sample in samples if sample.curve and sample.length and not sample.resumed_from]
    for one, other in itertools.permutations(runs, 2):
        if job.recipe(one.config) != job.recipe(other.config) or one.config.axes != other.config.axes:
            continue
        end = one.curve[-1]
        ended = complete(one) and _length(other) > PRIOR.later * _length(one)
        later = [point for point in other.curve if point.epoch <= PRIOR.later * end.epoch]
        long = other.curve[-1].epoch >= PRIOR.later * end.epoch and later[-1:] and later[-1].epoch > end.epoch
        if ended and long and not any(job.meets(end.accuracy, point.accuracy) for point in later):
            return (
                f"a run of {_length(one):g} epochs ended with {job.metric} {end.accuracy:.4g}, which one of "
                f"{_length(other):g} did not show by epoch {later[-1].epoch:.3g}: its learning rate seems to fall to "
                "the end of each run (`schedule:` says how)"
            )
    return ""


def annealing_of(job: Job, samples: Sequence[Sample]) -> Annealing | None:
    """Return what samples tell of a job whose rate falls to the end of its runs; None of any other."""
    schedule = falling(job, samples)
    if schedule is None:
        return None
    runs = [sample for sample in samples if sample.curve and sample.length]
    shown = job.sign * np.array([point.accuracy for one in runs for point in one.curve])
    fine = shown[np.isfinite(shown)]
    if not len(fine):
        return Annealing(schedule, 0.0)
    return replace(_fitted_to(job, schedule, runs), ceiling=natural_ceiling(job, fine))


def complete(sample: Sample) -> bool:
    """Say whether a run has trained all the epochs that it was told."""
    return sample.curve[-1].epoch >= _COMPLETE * _length(sample)


def _length(sample: Sample) -> float:
    return max(float(sample.length or 0), sample.curve[-1].epoch)


def _fitted_to(job: Job, schedule: str, samples: Sequence[Sample]) -> Annealing:
    """Return C by least squares, of the u0 and p that leave the least."""
    only_left = Annealing(schedule, 1.0)
    ways = [only_left.way(_length(one), np.array([point.epoch for point in one.curve])) for one in samples]
    done, left = (np.concatenate(part) for part in zip(*ways, strict=True))
    value = job.sign * np.array([point.accuracy for one in samples for point in one.curve])
    fine = np.isfinite(value)
    span = float(np.ptp(value[fine])) or 0.1 * float(np.abs(value[fine]).max()) or 1.0
    scaled = (value - value[fine].min()) / span + 1.0
    batch = np.repeat([one.config.global_batch for one in samples], [len(one.curve) for one in samples])
    own = (batch[:, None] == np.unique(batch)[None, :]).astype(np.float64)
    middle = float(np.exp(np.log(done).mean()))
    best = (np.inf, 0.0, 0.0, 0.0)
    for u0, p in itertools.product(_OFFSETS, _POWERS):
        rise = (done / middle + u0) ** -p
        gain, rest = _fitted(own[fine], rise[fine], left[fine], scaled[fine])
        best = min(best, (rest, gain, float(u0), float(p)))
    rest, gain, u0, p = best
    usual = gain if left[fine].min() <= PRIOR.seen else min(gain, PRIOR.usual)
    free = max(int(fine.sum()) - 2 * own.shape[1] - 1, 0)
    noise = float(np.sqrt((PRIOR.ends * PRIOR.noise**2 + rest**2) / (PRIOR.ends + free)))
    return Annealing(schedule, usual * span * middle**p, offset=u0 * middle, power=p, noise=noise * span)


def _fitted(own: Floats, rise: Floats, left: Floats, value: Floats) -> tuple[float, float]:
    """Return C and what is left over, with A and K of each batch and C at least 0."""
    prior = np.zeros(2 * own.shape[1] + 1)
    prior[-1] = np.sqrt(PRIOR.weight)
    rows = np.vstack([np.hstack([own, -own * rise[:, None], -(left * rise)[:, None]]), prior])
    coefficients, rest = nnls(rows, np.append(value, np.sqrt(PRIOR.weight) * PRIOR.usual))
    return float(coefficients[-1]), float(rest)
