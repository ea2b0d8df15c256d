"""What runs have shown, as the points that the likelihood sees.

Long runs are thinned to averages over blocks, which are short at the beginning, where much is learnt, and at the end,
which is nearest to what is asked. What an average hides is evidence of the noise of one evaluation.

Some tables hold only the first epoch at which each rung of a ladder of targets was met (Zeus). There the best value
lies between two rungs: above the rung that was met, and below it one epoch earlier.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cotune.predict.learning.schedules import candidates, travelled
from cotune.types import Floats, Ints, Schedule

POINTS, POINTS_OF_RUN, LEAST_POINTS = 40, 20, 3
MOST_RUNS = 16
_USUAL_STEPS = 6.0  # ln steps an epoch, where it is not known
_USUAL_EVALUATIONS = 8.0  # of the longest run
_DOUBLING = 0.2  # of what is left to the ceiling, that twice the epochs gain, where each run was evaluated once
_CRITICAL = 0.7  # power of the examples that critical batches grow by: 0.62 to 0.84 over 25 tasks, sources left out
_DIVERGED = 5.0  # times what runs have risen, or usually vary: values so far below their first ones are cut
_COLLAPSE = 0.3  # of the range of a run, lost between two evaluations: a gap that no noisy or over-fitting run shows
_BATCH_REACH, _LAW_REACH, _RUN_REACH, _LENGTH_REACH = 3 * math.log(2), 1.0, 0.7, 0.5  # of correlations, in logarithms


@dataclass(frozen=True, eq=False)
class Run:
    """The evaluations of one run; values rise (minus a loss)."""

    batch: float
    epochs: Floats
    values: Floats
    length: float | None = None
    """Epochs that the run was told, which its schedule needs; None: up to its last evaluation."""

    def until(self, count: int | None) -> Run:
        """Return its first evaluations; None: all of them."""
        return replace(self, epochs=self.epochs[:count], values=self.values[:count])


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is known of a job without training it."""

    ceiling: float = math.inf
    """What no value passes: 1 of an accuracy, 0 of minus a loss."""

    floor: float = -math.inf
    fixed_rate: bool = False
    """The learning rate is the same for all batches."""

    examples: float | None = None
    falls: bool = False
    """The metric is one that falls, as a loss."""

    schedule: str | None = "constant"
    """A schedule's name as in `schedules.py`; None: not known."""

    rung: float = 0.0
    """Distance between two rungs, where values are the rungs of a ladder that were met; 0: values are evaluations."""


@dataclass(frozen=True, eq=False)
class Sites:
    """Where something was evaluated, or is asked (one entry for each place)."""

    ln_epochs: Floats
    ln_batch: Floats
    run: Ints
    """Number of the run: places of one run share its random effects."""

    ln_length: Floats

    @classmethod
    def of(cls, run: int, batch: float, epochs: Floats, length: float | Floats) -> Sites:
        """Return the places of one run, or the ends of runs of several lengths."""
        ones = np.ones(len(epochs))
        return cls(np.log(epochs), math.log(batch) * ones, np.full(len(epochs), run), np.log(length) * ones)

    def joined(self, *others: Sites) -> Sites:
        """Return these places and others."""
        parts = [(one.ln_epochs, one.ln_batch, one.run, one.ln_length) for one in (self, *others)]
        return Sites(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def travelled(self, schedule: str | None) -> tuple[Floats, Floats]:
        """Return ln progress and the rate still on, of each shape (rows) that the schedule may have."""
        epochs, lengths = np.exp(self.ln_epochs), np.exp(self.ln_length)
        both = [travelled(shape, epochs, lengths) for shape in candidates(schedule)[0]]
        return np.array([one for one, _ in both]), np.array([rate for _, rate in both])

    def kernels(self, others: Sites) -> dict[str, Floats]:
        """Return the correlations of the random effects between these places (rows) and others."""
        between_epochs = np.abs(self.ln_epochs[:, None] - others.ln_epochs)
        scaled = math.sqrt(3) / _LAW_REACH * between_epochs
        law = (1 + scaled) * np.exp(-scaled)
        between_batches = np.exp(-np.abs(self.ln_batch[:, None] - others.ln_batch) / _BATCH_REACH)
        run = (self.run[:, None] == others.run).astype(np.float64)
        return {
            "law": law,
            "batch": between_batches * (0.5 + 0.5 * law),
            "run": run,
            "wander": run * np.exp(-between_epochs / _RUN_REACH),
            "length": np.exp(-np.abs(self.ln_length[:, None] - others.ln_length) / _LENGTH_REACH),
        }


class Observations:
    """All runs, thinned to some 40 points."""

    def __init__(self, runs: Sequence[Run], facts: JobFacts) -> None:
        shown = [run for run in runs if len(run.epochs)]
        self.places = _telling([run.batch for run in shown])
        shown = [shown[place] for place in self.places]
        self.facts = facts
        whole = _without_divergence(shown)
        self.collapses = [_collapse(run.values) for run in whole]
        whole = [run.until(place) for run, place in zip(whole, self.collapses, strict=True)]
        self.runs = [_to_ceiling(run, facts.ceiling) for run in whole]
        self.at_ceiling = any(run.values.max() >= facts.ceiling for run in self.runs)
        if facts.rung:
            self.runs = [_on_ladder(run, facts.rung) for run in self.runs]
        each = int(np.clip(POINTS // max(len(self.runs), 1), LEAST_POINTS, POINTS_OF_RUN))
        thinned = [_thinned(run, each) for run in self.runs]
        places = [
            Sites.of(number, run.batch, points[0], run.length or run.epochs[-1])
            for number, (run, points) in enumerate(zip(self.runs, thinned, strict=True))
        ]
        self.sites = places[0].joined(*places[1:])
        _, self.value, self.count, self.scatter, self.free = np.hstack(thinned)
        self.ln_progress, self.rate = self.sites.travelled(facts.schedule)
        self.rounding = facts.rung**2 / 12  # variance of a value that is only known to lie between two rungs
        every = np.concatenate([run.values for run in self.runs])
        self.middle_batch = float(np.mean(np.unique(self.sites.ln_batch)))
        examples = facts.examples
        self.usual_critical = _CRITICAL * math.log(examples) if examples else self.middle_batch
        self.first = float(self.ln_progress.min(axis=1).max())
        self.scale = float(np.ptp(every)) or 0.1 * float(np.abs(every).max()) or 1.0
        """What runs have risen over the places of `rise`."""
        self.rise = self.sites.ln_batch, self.ln_progress
        if len(set(self.sites.ln_epochs.tolist())) == 1:  # nothing has risen yet
            left = facts.ceiling - float(every.max())
            self.scale = _DOUBLING * left if 0 < left < math.inf else self.scale
            self.rise = (
                np.full(2, self.middle_batch),
                np.tile([self.first, self.first + math.log(2)], (len(self.ln_progress), 1)),
            )

    @cached_property
    def kernels(self) -> dict[str, Floats]:
        return self.sites.kernels(self.sites)

    def collapsed(self, batch: float, run: int | None) -> tuple[float, float]:
        """Return how probable it is that a fresh run of a batch, or one that was seen, collapses, and after when."""
        same = [n for n, one in enumerate(self.runs) if (one.batch == batch if run is None else n == run)]
        ends = [self.runs[n].epochs[-1] for n in same if self.collapses[n] is not None]
        return len(ends) / max(len(same) + (run is None), 1), min(ends, default=math.inf)

    @property
    def features(self) -> Floats:
        """Return what shifts the prior's mean, beginning with 1."""
        examples = self.facts.examples
        steps = math.log(examples) - self.middle_batch if examples else _USUAL_STEPS
        scheduled = self.facts.schedule is not None and Schedule.read(self.facts.schedule).kind != "constant"
        flags = (self.facts.fixed_rate, self.facts.falls, scheduled, self.facts.schedule is None)
        most = max(len(run.epochs) for run in self.runs)
        sizes = np.clip(((steps - _USUAL_STEPS) / 2, math.log(most / _USUAL_EVALUATIONS)), -2, 2)
        return np.array([1.0, *sizes, *map(float, flags)])


def _telling(batches: Sequence[float]) -> list[int]:
    """Return the places of the runs that are looked at, the last among them: of each batch as many, the latest."""
    count = len(batches)
    if count <= MOST_RUNS or len(set(batches)) > MOST_RUNS:
        return sorted(set(np.linspace(0, count - 1, min(count, MOST_RUNS)).round().astype(int).tolist()))
    later = [batches[place + 1 :].count(batch) for place, batch in enumerate(batches)]
    return sorted(sorted(range(count), key=lambda place: (later[place], -place))[:MOST_RUNS])


def _without_divergence(runs: Sequence[Run]) -> list[Run]:
    """Return runs whose diverged values are cut, as one of 4e7 would be the scale of everything."""
    finite = [run.values[np.isfinite(run.values)] for run in runs]
    every = np.concatenate(finite)
    first = min(float(values[0]) for values in finite if len(values))
    usual = max(float(every.max()) - first, float(np.subtract(*np.quantile(every, (0.75, 0.25)))))
    least = first - _DIVERGED * usual
    return [
        replace(run, values=np.maximum(np.where(np.isfinite(run.values), run.values, least), least)) for run in runs
    ]


def _collapse(values: Floats) -> int | None:
    """Return where a run fell at once below all that it had shown, for good; None if it did not."""
    if len(values) < 4:
        return None
    lowest_before, highest_after = np.minimum.accumulate(values), np.maximum.accumulate(values[::-1])[::-1]
    gaps = lowest_before[1:-2] - highest_after[2:-1]  # two evaluations at least on either side
    return int(gaps.argmax()) + 2 if gaps.max() > _COLLAPSE * np.ptp(values) else None


def _to_ceiling(run: Run, ceiling: float) -> Run:
    """Return a run up to where it first met the ceiling, behind which it would have gone on."""
    met = run.values >= ceiling
    return run.until(max(int(met.argmax()) + 1, 2)) if met.any() else run


def _on_ladder(run: Run, rung: float) -> Run:
    """Return the middles of the rungs between which the best value lay when a rung was met, and an epoch before."""
    before = np.r_[False, np.diff(run.epochs) > 1]  # where the epoch before was not recorded
    epochs = np.concatenate([run.epochs, run.epochs[before] - 1])
    values = np.concatenate([run.values + rung / 2, run.values[before] - rung / 2])
    order = np.argsort(epochs, kind="stable")
    return replace(run, epochs=epochs[order], values=values[order])


def _thinned(run: Run, most: int) -> Floats:
    """Return epochs, values, counts, and sums and numbers of squared deviations (rows) of the blocks of a run."""
    edges = _block_edges(len(run.epochs), most)
    rows = []
    for begin, end in itertools.pairwise(edges.tolist()):
        x, y = np.log(run.epochs[begin:end]), run.values[begin:end]
        count = len(x)
        trend = np.polyval(np.polyfit(x, y, 1), x) if count > 2 else y
        rows.append((np.exp(x.mean()), y.mean(), count, ((y - trend) ** 2).sum(), max(count - 2, 0)))
    return np.array(rows, dtype=np.float64).T


def _block_edges(count: int, most: int) -> Ints:
    """Return where blocks begin, and the end of the last; their sizes grow as squares from both ends."""
    if count <= most:
        return np.arange(count + 1)
    places = np.arange(most)
    shape = np.minimum(places + 1, most - places) ** 2.0
    low, high = 0.0, float(count)
    for _ in range(50):  # bisection for the factor at which sizes of at least 1 sum to the count
        factor = (low + high) / 2
        low, high = (factor, high) if np.maximum(factor * shape, 1.0).sum() < count else (low, factor)
    ends = np.cumsum(np.maximum(high * shape, 1.0))
    return np.unique(np.r_[0, np.round(ends / ends[-1] * count)].astype(np.int64))
