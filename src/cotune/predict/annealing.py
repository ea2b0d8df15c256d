"""Whether the learning rate falls to the end of each run, so that a run is not the beginning of a longer one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from cotune.predict.samples import trusted
from cotune.progress import whole_units
from cotune.types import Goal, Job, Sample, Schedule

_LATER = 1.6  # times the epochs of a shorter run until a longer one is as good, which no luck explains
_COMPLETE = 0.999  # of its length that a run has trained which has annealed


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
