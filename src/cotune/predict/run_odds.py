"""How likely a run under way is to meet its goal, from the job's law and the run's own evaluations.

    accuracy after e epochs = law(e exp(-s - late)) + level + noise   s: by how much this run is slower than its job
    s ~ USUAL N(0, spread) + (1 - USUAL) N(0, WIDE)   x  p(evaluations | s)                            in ln epochs
    N(s) = first evaluation that meets the target, by chance if it is near

s lies on a grid. Most runs are as lucky as others of their job; a few are of another kind (a changed script, other
data), which the wide part finds out. What evaluations miss of the law for the best s does not average out, so that they
count as WITNESSES at most, the later ones more; while there are few, the law misses them by more. What is missed late,
where the law is flat, stays as a level; where it is steep, the run is behind (late). Where the learning rate falls to
the end of the run, the law is that of annealed ends and the run is below it on the way (`annealing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from cotune.forecast import Learning
from cotune.predict.ends import turn
from cotune.predict.evaluation_noise import LEAST, evaluation_noise
from cotune.predict.samples import LearningCurve
from cotune.types import Floats, Quantity


@dataclass(frozen=True, slots=True)
class RunOddsPrior:
    """What is assumed of a run before it has shown anything.

    Noise, few and level were compared by `benchmarks/run_odds.py`, where own recordings, Zeus and MLPerf each prefer
    the same or nearly so; the others were set by hand on small runs of our own, and hardly matter there.
    """

    usual: float = 0.9  # share of runs that are like others of their job
    wide: float = 0.8  # deviation of s of those that are not
    least: float = 0.1  # of the others, at least
    noise: float = 0.03  # of the law's range: what it misses at best
    few: float = 3.0  # n evaluations are missed by 1 + this / n times as much: the first ones tell little
    witnesses: float = 8.0
    chance: float = 0.5  # of an evaluation's noise that is another at the next: what runs share does not come again
    behind: float = 20.0  # n evaluations tell n / (n + this) of how far a run lags behind the law at its end
    returns: float = 0.1  # share of runs that have turned for long and still go on as expected
    patience: float = 2.0  # times the share of a run since its best, by which fewer do
    level: float = 1 / 30  # of the law's range for each ln epoch: what is flatter than that shows a run's level
    pace: float = 0.1  # deviation of ln seconds of the epochs to come, once a run has told its own
    surest: float = 0.99  # some runs stall, whatever their forecast


PRIOR = RunOddsPrior()
_INSTANT = 1e-9  # seconds
_SAME_TIME = 1e-6  # of the epochs between two evaluations
_SHIFTS = np.linspace(-1.5, 2.5, 201)
_BEFORE = 3.0  # doublings before the first evaluation of the law, for runs that are slower
_NEARBY = 1.1  # times the epochs, for the law's steepness
_LAST = 4  # evaluations that tell the level of a run
_LOOKED_BACK = 8  # evaluations since which a run may have turned
_MOST_POINTS = 24  # evaluations that are looked at, evenly spread


@dataclass(frozen=True, slots=True)
class RunClock:
    """What a run has taken by now, its seconds an epoch and how sure they are, and when it is to end, if ever."""

    spent: float
    epoch_seconds: float
    deadline: float | None
    spread: float = PRIOR.pace  # of ln epoch_seconds


@dataclass(frozen=True)
class RunBelief:
    """The epochs that a run may need in all, infinite where it never arrives, and the weight of each."""

    needed: Floats
    weights: Floats
    done: float

    def odds(self, clock: RunClock) -> float:
        """Return the chance that the target is met, and in time."""
        able = np.isfinite(self.needed)
        weights = self.weights[able]
        if clock.deadline is not None:
            left = np.maximum(self.needed[able] - self.done, 0.0) * clock.epoch_seconds
            allowed = max(clock.deadline - clock.spent, _INSTANT)
            weights = weights * ndtr(np.log(allowed / np.maximum(left, _INSTANT)) / clock.spread)
        return float(min(weights.sum(), PRIOR.surest))

    def end(self, cap: float) -> Quantity:
        """Return the epochs after which the run ends: at its target, or at its cap."""
        low, mid, high = (min(self.quantile(share), cap) for share in (0.1, 0.5, 0.9))
        return Quantity(low, mid, high, "measured", "epochs")

    def less(self, share: float) -> RunBelief:
        """Return what is believed if only such a share of the runs that would arrive do."""
        arrive = np.where(np.isfinite(self.needed), share * self.weights, 0.0)
        return RunBelief(np.r_[self.needed, np.inf], np.r_[arrive, 1 - arrive.sum()], self.done)

    def quantile(self, share: float) -> float:
        """Return the epochs that such a share of runs like this needs at most."""
        order = np.argsort(self.needed)
        place = int(np.searchsorted(np.cumsum(self.weights[order]), share))
        return float(self.needed.item(order.item(min(place, len(order) - 1))))


def returns(curve: Sequence[tuple[float, float]]) -> float:
    """Return the chance that a run goes on as expected: the less, the longer it has been worse than at its best."""
    told = np.array([(epoch, value) for epoch, value in curve if epoch > 0 and np.isfinite(value)])
    if len(told) == 0:
        return 1.0
    top = int(told[:, 1].argmax())
    looked = range(max(top + 1, len(told) - _LOOKED_BACK), len(told) + 1)
    if not any(turn(LearningCurve(0, 0, *told[:count].T)) is not None for count in looked):
        return 1.0
    return max(PRIOR.returns, 1 - PRIOR.patience * (1 - float(told[top, 0] / told[-1, 0])))


@dataclass(frozen=True)
class RunLaw:
    """What a run of a config that is told its length is expected to show, and by how much it may be slower."""

    learning: Learning  # of this config alone
    length: float
    target: float  # which accuracy rises to
    spread: float

    def believe(self, curve: Sequence[tuple[float, float]], done: float) -> RunBelief:
        """Return what is believed of a run after evaluations (epoch, accuracy that rises)."""
        epochs = self._evaluations(curve, done)
        score = self._prior() + self._likelihood(curve)
        weights = np.exp(score - score.max())
        level, late = self._missed(curve)
        above = self._shown(epochs, late) + level[:, None] - self.target
        meets = ndtr(above / self._noise(curve))
        missed = np.cumprod(np.hstack([np.ones((len(above), 1)), 1 - meets]), axis=1)
        first = np.hstack([meets * missed[:, :-1], missed[:, -1:]])
        belief = RunBelief(np.r_[epochs, np.inf], weights / weights.sum() @ first, done)
        return belief if self.learning.way is not None else belief.less(returns(curve))

    def _evaluations(self, curve: Sequence[tuple[float, float]], done: float) -> Floats:
        """Return the epochs of the evaluations to come."""
        told = sorted({epoch for epoch, _ in curve if epoch > 0})
        gap = float(np.median(np.diff([0.0, *told]))) if told else float(self.learning.steps[0])
        last = told[-1] if told else 0.0
        count = max(int(np.ceil((self.length - last) / gap - _SAME_TIME)), 1)
        epochs = np.minimum(last + gap * np.arange(1.0, count + 1), self.length)
        return np.asarray(epochs[epochs > done + gap * _SAME_TIME])

    def _noise(self, curve: Sequence[tuple[float, float]]) -> float:
        """Return by how much one evaluation differs from the next by chance."""
        told = [(epoch, value) for epoch, value in curve if epoch > 0 and np.isfinite(value)]
        if not told:
            return PRIOR.chance * LEAST * self._span
        own = LearningCurve(0, 0, *np.array(told).T)
        return PRIOR.chance * float(evaluation_noise([own], self._span)[0])

    def _shown(self, epochs: Floats, late: Floats | float = 0.0) -> Floats:
        """Return what runs slower by each s (rows), and so much later still, show after some epochs."""
        worth, below = epochs, np.zeros_like(epochs)
        if self.learning.way is not None:
            worth, below = self.learning.way(self.length, epochs)
        logs, law = self._law
        done = np.log(np.maximum(worth, _INSTANT))[None, :] - (_SHIFTS + late)[:, None]
        return np.asarray(np.interp(done, logs, law) - below[None, :])

    @cached_property
    def _law(self) -> tuple[Floats, Floats]:
        """Return ln epochs and what the law shows there, some doublings before its first evaluation as it begins."""
        law = np.maximum.accumulate(self.learning.evaluation[0])
        logs = np.log(self.learning.steps[0] * np.arange(1.0, len(law) + 1))
        if len(law) < 2:
            return logs, law
        before = _BEFORE * np.log(2)
        steepness = (law[1] - law[0]) / (logs[1] - logs[0])
        return np.r_[logs[0] - before, logs], np.r_[law[0] - before * steepness, law]

    @cached_property
    def _span(self) -> float:
        return float(np.ptp(self.learning.evaluation[0])) or abs(self.target) or 1.0

    def _missed(self, curve: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
        """Return by how much the last evaluations lie above what each s expects, and by how many ln epochs later.

        What is missed where the law is flat stays; where it is steep a run is not below it, but behind.
        """
        fine = [(epoch, value) for epoch, value in curve if np.isfinite(value)]
        if not fine:
            return np.zeros(len(_SHIFTS)), np.zeros(len(_SHIFTS))
        epochs, values = np.array(fine[-_LAST:]).T
        shown = self._shown(epochs)
        steepness = (self._shown(epochs * _NEARBY) - shown) / np.log(_NEARBY)
        flat = (PRIOR.level * self._span) ** 2
        share = flat / (steepness**2 + flat)
        missed = values[None, :] - shown
        late = -missed * (1 - share) * steepness / (steepness**2 + flat)
        trust = len(fine) / (len(fine) + PRIOR.behind)
        return np.asarray((missed * share).mean(axis=1)), np.asarray(trust * late.mean(axis=1))

    def _prior(self) -> Floats:
        usual, wide = (np.exp(-0.5 * (_SHIFTS / sd) ** 2) / sd for sd in (max(self.spread, PRIOR.least), PRIOR.wide))
        return np.asarray(np.log(PRIOR.usual * usual + (1 - PRIOR.usual) * wide))

    def _likelihood(self, curve: Sequence[tuple[float, float]]) -> Floats:
        fine = [(epoch, value) for epoch, value in curve if np.isfinite(value)]
        if not fine:
            return np.zeros(len(_SHIFTS))
        few = np.unique(np.linspace(0, len(fine) - 1, min(len(fine), _MOST_POINTS)).round().astype(np.int64))
        epochs, values = np.array(fine)[few].T
        later = np.exp(np.linspace(-1.0, 0.0, len(few)))
        shown = self._shown(epochs)
        noise = PRIOR.noise * (1 + PRIOR.few / len(few))
        missed = ((shown - values[None, :]) ** 2) @ (later / later.sum()) / self._span**2 + noise**2
        return np.asarray(-0.5 * min(len(few), PRIOR.witnesses) * np.log(missed))
