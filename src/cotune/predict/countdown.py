"""Batch-time ETA: what is left of a run, read from the run itself.

    epoch = examples / B x t                    t the seconds of a batch, B the global batch
    left  = r (e_end - e) + v n                 e epochs done, n evaluations still to come

r is the mean of the seconds per epoch over blocks of equal progress, the later ones counting more;
the first part of a start, which pays for caching and autotuning, is dropped, and so is all
that came before its first report. v, what an evaluation and its checkpoint take, is counted
apart. A start that goes on from a checkpoint begins its marks anew, where that left off, and
leans on what was seen before it until it has blocks of its own.

The interval should hold the end in four runs of five:

    sd^2 = s^2 (1 / blocks seen + 1 / blocks left) + d^2                left x exp(+-1.28 sd)

s is the relative scatter of the blocks, and d the drift: how far, in logarithms, the pace of a later
part of this run has been from that of the part before it, for cuts at a quarter, a half
and three quarters. Both are drawn to what is usual while little was seen: 6 % on a machine of one's own,
12 % on its GPU, whose host launches faster now and slower then, and more on a machine whose cores
are asked for by several (`usual_scatter`), where the others may come and go. So the error
falls as the run goes on, and the interval says how far it has.

Reference: a master's thesis of UESTC on scheduling TensorFlow tasks, as told in a survey of time prediction of 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from cotune.predict.loss_curve import epochs_to
from cotune.types import Z90, Config, Floats, Job, Plan, Quantity, Sample

_WARM_UP = 0.2  # of what a start has done, but no more than an epoch
_BLOCKS = 12
_USUAL, _USUAL_WEIGHT = 0.06, 3.0  # scatter and drift while few blocks are known, and the blocks it counts for
LAUNCHING_DRIFT = 0.12  # of launching on a GPU's host, in logarithms: between a quiet host and a busy one
_CROWDED = 0.04  # more of it for each doubling of what is asked of a core, beyond one
_SOON = 0.1  # epochs that are left at least where a run may have ended by now
_UNSEEN = 0.10  # an evaluation is still to come that no one has seen
_LATER = 2.0  # how much more the last block counts than the first
_MOST_MARKS = 512
_SAME = 1e-9  # of the epochs between two evaluations


@dataclass(slots=True)
class Countdown:
    """The ETA of one run, fed with its sample as that grows, through all its starts.

    `usual` is the relative scatter of its pace to expect while it has shown little of its own.
    """

    usual: float = _USUAL
    _start: str | None = None
    _config: Config | None = None
    _marks: list[tuple[float, float, int]] = field(default_factory=list)  # epochs, seconds, evaluations in them
    _before: Floats = field(default_factory=lambda: np.empty(0))  # paces of earlier starts of this config
    _lump: float = 0.0
    _evaluated: tuple[float, ...] = ()  # epochs of the evaluations

    def see(self, sample: Sample) -> None:
        """Take in where the run stands."""
        if sample.id != self._start:
            paces = np.concatenate([self._before, self._paces()])
            self._before = paces[-_BLOCKS:] if sample.config == self._config else np.empty(0)
            self._start, self._config, self._marks = sample.id, sample.config, []
        known = sample.terms.known()
        self._lump = known.get("evaluation", 0.0) + known.get("checkpoint", 0.0)
        self._evaluated = tuple(point.epoch for point in sample.curve)
        # Without a first report at its beginning a start tells nothing of its own pace yet.
        if sample.seconds > 0 and (not self._marks or sample.epochs > self._marks[-1][0]):
            self._marks.append((sample.epochs, sample.seconds, len(sample.curve)))
            if len(self._marks) > _MOST_MARKS:
                self._marks = [self._marks[0], *self._marks[1::2]]

    def left(self, end: Quantity) -> Quantity | None:
        """Return the seconds to the epoch at which a run is expected to end, None before its pace is known."""
        own = self._paces()
        paces = np.concatenate([self._before[: max(_BLOCKS - len(own), 0)], own])
        if len(paces) == 0 or not self._marks:
            return None
        weights = np.linspace(1.0, _LATER, len(paces))
        pace = float(paces @ weights / weights.sum())
        at = self._marks[-1][0]
        more = max(end.mid - at, 0.0)
        mid = pace * more + self._lump * self._evaluations(at, end.mid)
        doubt = math.hypot(self._doubt(paces, pace, more), _UNSEEN if not self._evaluated and more else 0.0)
        sooner, later = (math.exp(Z90 * math.hypot(doubt, away)) for away in _away(end, at))
        return Quantity(mid / sooner, mid, mid * later, "measured" if len(own) else "assumed", "s")

    def _paces(self) -> Floats:
        """Return the seconds per epoch in blocks of equal progress, the warm-up left out."""
        if len(self._marks) < 2:
            return np.empty(0)
        epochs, elapsed, evaluations = np.array(self._marks).T
        seconds = elapsed - self._lump * evaluations  # by what an evaluation is known to take now, at every mark
        done = epochs[-1] - epochs[0]
        if len(epochs) == 2:  # the first report of a step tells of warming up; that of an epoch is all there is
            return np.array([(seconds[1] - seconds[0]) / done]) if done >= 1 else np.empty(0)
        first = max(epochs[1], epochs[0] + min(_WARM_UP * done, 1.0))
        edges = self._edges(epochs, first)
        paces: Floats = np.diff(np.interp(edges, epochs, seconds)) / np.diff(edges)
        return np.maximum(paces, 0.0)

    def _edges(self, epochs: Floats, first: float) -> Floats:
        """Return where blocks begin and end: at evaluations where their seconds are not told, else evenly."""
        whole = [epoch for epoch in self._evaluated if epoch >= first]
        if self._lump == 0 and len(whole) > 2:
            return np.array(whole[-_BLOCKS - 1 :])
        count = min(_BLOCKS, max(int((epochs > first).sum()), 1))
        return np.linspace(first, epochs[-1], count + 1)

    def _doubt(self, paces: Floats, pace: float, more: float) -> float:
        """Return the relative deviation of the seconds to come from the seconds expected."""
        if pace <= 0 or more <= 0:
            return 0.0
        usual = _USUAL_WEIGHT * self.usual**2
        scatter = (float(((paces / pace - 1) ** 2).sum()) + usual) / (max(len(paces) - 1, 0) + _USUAL_WEIGHT)
        drifts = _drifts(paces)
        drift = (float((drifts**2).sum()) + usual) / (len(drifts) + _USUAL_WEIGHT)
        done = self._marks[-1][0] - self._marks[0][0]
        to_come = max(more / done * len(paces), 0.5) if done > 0 else 0.5
        return math.sqrt(scatter * (1 / len(paces) + 1 / to_come) + drift)

    def _evaluations(self, at: float, end: float) -> float:
        """Return how many evaluations are still to come, at the rhythm of those seen."""
        if not self._evaluated:
            return 0.0
        first, last = self._evaluated[0], self._evaluated[-1]
        begun = self._marks[0][0]
        gap = (last - first) / (len(self._evaluated) - 1) if len(self._evaluated) > 1 else first - begun
        return max((end - max(last, at - gap)) / gap, 0.0) if gap > 0 else 0.0


@dataclass(frozen=True, slots=True)
class End:
    """The epochs after which a run is expected to end; `doubt` is why its target is not in sight, if it is not."""

    epochs: Quantity
    doubt: str = ""


def expected_end(job: Job, sample: Sample, *, epochs: int, target: float | None, plan: Plan | None) -> End:
    """Return when a run is expected to end: at its cap, or where it meets its target."""
    cap, done = float(epochs), sample.epochs
    if job.reached(target, sample):
        return End(Quantity(done, done, done, "measured"))
    soonest = min(_next_evaluation(sample), cap)
    needed = plan.forecast.epochs_needed if plan is not None else None
    if needed is not None:
        low, mid, high = (min(cap, max(end, soonest)) for end in (needed.low, needed.mid, needed.high))
        return End(Quantity(low, mid, high, needed.source))
    at_cap = Quantity(cap, cap, cap, "assumed")
    if target is None:
        return End(at_cap)
    found = epochs_to(job, sample, target)
    if found.epoch is None:
        return End(at_cap, found.reason)
    return End(Quantity(soonest, min(cap, max(math.ceil(found.epoch), soonest)), cap, "extrapolated"))


def _next_evaluation(sample: Sample) -> float:
    """Return the epoch at which a run is evaluated next: at the end of an epoch, where it has told no other rhythm."""
    told = [0.0, *(point.epoch for point in sample.curve if point.epoch > 0)]
    gap = float(np.median(np.diff(told))) if len(told) > 1 else 1.0
    return told[-1] + gap * max(math.floor((sample.epochs - told[-1]) / gap + _SAME) + 1.0, 1.0)


def seconds_left(job: Job, sample: Sample, *, epochs: int, target: float | None, plan: Plan | None) -> Quantity | None:
    """Return the ETA of a run of which only its sample is known: the evaluations are its marks."""
    if sample.epoch_seconds is None:
        return None
    countdown = Countdown(_start=sample.id, _config=sample.config, _before=np.array([sample.epoch_seconds]))
    for count, point in enumerate(sample.curve, start=1):
        countdown.see(replace(sample, epochs=point.epoch, seconds=point.seconds, curve=sample.curve[:count]))
    countdown.see(sample)
    return countdown.left(expected_end(job, sample, epochs=epochs, target=target, plan=plan).epochs)


def _away(end: Quantity, done: float) -> tuple[float, float]:
    """Return the deviation, in logarithms, of the epochs left below their median and above, by an uncertain end."""
    low, mid, high = (end.low - done, end.mid - done, end.high - done)
    if low <= 0:  # it may have ended by now
        low = min(_SOON, mid)
    return (math.log(mid / low) / Z90, math.log(high / mid) / Z90) if mid > 0 else (0.0, 0.0)


def usual_scatter(load: float, cores: int, device: str = "cpu") -> float:
    """Return the scatter to expect of a pace on a machine of which so much is asked; a GPU's drifts with its host."""
    return (_USUAL if device == "cpu" else LAUNCHING_DRIFT) + _CROWDED * math.log2(max(load / cores, 1.0))


def _drifts(paces: Floats) -> Floats:
    """Return ln(pace after / pace before) for cuts at a quarter, a half and three quarters of the blocks."""
    cuts = sorted({round(len(paces) * share) for share in (0.25, 0.5, 0.75)} - {0, len(paces)})
    means = [(float(paces[:cut].mean()), float(paces[cut:].mean())) for cut in cuts]
    return np.array([math.log(after / before) for before, after in means if before > 0 and after > 0])
