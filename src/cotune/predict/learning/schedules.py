"""Learning-rate schedules: how much of a run has been learnt, and how much of its peak rate is still on.

    progress(e) = integral of rate / peak over the first e epochs
    rate(e)     = rate / peak, which counts as 1 until it first falls

Of some schedules only the kind is known, or nothing at all. They are several shapes, each with a prior probability, and
the evaluations decide between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotune.predict.samples import trusted
from cotune.progress import whole_units
from cotune.types import Floats, Goal, Job, Sample, Schedule

_LEAST = 1e-6  # of a run's length, as the progress of its first steps
_LATER = 1.6  # times the epochs of a shorter run until a longer one is as good, which no luck explains
_COMPLETE = 0.999  # of its length that a run has trained which has annealed
_CONSTANT_SHARE = 0.25  # of the runs of which no schedule is known


@dataclass(frozen=True, slots=True)
class Shape:
    """How the rate goes over a run."""

    kind: str
    fall: float = 1.0
    """Share of the run over which the rate falls."""

    floor: float = 0.0
    """Rate at the end, over the peak; of step the factor at each milestone."""

    warmup: float = 0.0
    """How long the rate rises at first: below 1 a share of the run, else epochs.

    As much is learnt in it as at the peak rate, which holds for Adam (a small language model, runs of 20 to 400 steps)
    and makes no difference with SGD (`benchmarks/annealed_ends.py`); only of one cycle the rising rate is integrated.
    """

    milestones: tuple[float, ...] = ()
    """Where the rate is multiplied by `floor`: below 1 shares of the run, else epochs."""


CONSTANT = Shape("constant")
_WSD = tuple(Shape("wsd", fall) for fall in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0))
_KINDS = {
    "constant": (CONSTANT,),
    "linear": (Shape("wsd"), Shape("wsd", floor=0.1)),
    "cosine": (Shape("cosine"), Shape("cosine", floor=0.1)),
    "one_cycle": (Shape("one_cycle", warmup=0.3),),
    "wsd": _WSD,
    "step": tuple(Shape("step", 1, floor, milestones=(at,)) for at in (0.4, 0.6, 0.8) for floor in (0.1, 0.3, 0.6)),
}
_FALLING = (Shape("cosine"), Shape("cosine", floor=0.1), *_WSD[1:6], *_WSD[7:])


def candidates(schedule: str | None) -> tuple[tuple[Shape, ...], Floats]:
    """Return the shapes that a schedule may have ("cosine", "wsd(0.3)"; None: not known), and their probabilities."""
    told = Schedule.read(schedule or "unknown")
    if told.kind == "unknown":
        shapes: tuple[Shape, ...] = (CONSTANT, *_FALLING)
        shares = np.r_[_CONSTANT_SHARE, np.full(len(_FALLING), (1 - _CONSTANT_SHARE) / len(_FALLING))]
    else:
        shapes = _KINDS[told.kind]
        if told.numbers:
            wsd, step = Shape("wsd", told.numbers[0]), Shape("step", 1, told.factor, milestones=told.numbers)
            shapes = (wsd if told.kind == "wsd" else step,)
        shares = np.full(len(shapes), 1 / len(shapes))
    return tuple(replace(shape, warmup=told.warmup or shape.warmup) for shape in shapes), shares


def travelled(shape: Shape, epochs: Floats, lengths: Floats) -> tuple[Floats, Floats]:
    """Return ln progress and the rate still on after epochs of runs of some lengths."""
    rising = np.minimum(_epochs(shape.warmup, lengths), lengths)
    lost, rate = np.zeros_like(epochs), np.ones_like(epochs)  # epochs at the peak rate that were not trained
    if shape.kind == "one_cycle":
        warm = np.minimum(epochs / np.maximum(rising, _LEAST * lengths), 1.0)
        lost = np.minimum(epochs, rising) * (1 - warm / 2)
    if shape.kind == "step":
        for place in shape.milestones:
            after = np.maximum(epochs - _epochs(place, lengths), 0.0)
            lost = lost + rate * (1 - shape.floor) * after
            rate = np.where(after > _LEAST * lengths, shape.floor * rate, rate)
    elif shape.kind != "constant":
        epochs = np.minimum(epochs, lengths)
        begin = np.maximum((1 - shape.fall) * lengths, rising)
        falling = np.maximum(lengths - begin, _LEAST * lengths)
        share = np.clip((epochs - begin) / falling, 0.0, 1.0)
        fallen, missing = share, share**2 / 2
        if shape.kind != "wsd":
            fallen, missing = (1 - np.cos(np.pi * share)) / 2, share / 2 - np.sin(np.pi * share) / (2 * np.pi)
        lost = lost + (1 - shape.floor) * falling * missing
        rate = 1 - (1 - shape.floor) * fallen
    return np.log(np.maximum(epochs - lost, _LEAST * lengths)), rate


def _epochs(place: float, lengths: Floats) -> Floats:
    """Return a place in runs, which below 1 is a share of each, in epochs."""
    return place * lengths if place < 1 else np.full_like(lengths, place)


def falling(job: Job, samples: Sequence[Sample]) -> str | None:
    """Return the schedule of a job whose rate falls with each run ("unknown" where runs alone show it), else None."""
    if contradiction(job, samples):
        return "unknown"
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
        ended = complete(one) and _length(other) > _LATER * _length(one)
        later = [point for point in other.curve if point.epoch <= _LATER * end.epoch]
        long = other.curve[-1].epoch >= _LATER * end.epoch and later[-1:] and later[-1].epoch > end.epoch
        if ended and long and not any(job.meets(end.accuracy, point.accuracy) for point in later):
            return (
                f"a run of {_length(one):g} epochs ended with {job.metric} {end.accuracy:.4g}, which one of "
                f"{_length(other):g} did not show by epoch {later[-1].epoch:.3g}: its learning rate seems to fall to "
                "the end of each run (`schedule:` says how)"
            )
    return ""


def complete(sample: Sample) -> bool:
    """Say whether a run has trained all the epochs that it was told."""
    return sample.curve[-1].epoch >= _COMPLETE * _length(sample)


def _length(sample: Sample) -> float:
    return max(float(sample.length or 0), sample.curve[-1].epoch)
