"""How a job counts its progress, and what that is inside: parts of its training data, so that batches compare.

    examples seen = steps x global batch = tokens / sequence = epochs x examples of an epoch
    inside        = examples seen / examples of a part          `Job.examples`: an epoch where epochs are counted

What was learnt depends on the examples seen, whatever the batch, so that is the axis of every curve. A training of few
epochs or of none is cut into parts, and what a user reads is in the unit of the job.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from cotune.types import Config, Job
from cotune.units import number


def done(job: Job, config: Config, said: Mapping[str, float]) -> float | None:
    """Return the parts that a job has done by the steps, tokens or epochs it tells; None where they say nothing."""
    if "epoch" in said and job.counting.unit == "epochs":
        return said["epoch"] * job.counting.parts
    if "step" in said and job.examples:
        return said["step"] * config.global_batch / job.examples
    if "tokens" in said and job.examples and job.counting.sequence:
        return said["tokens"] / job.counting.sequence / job.examples
    if "epoch" in said and job.counting.epoch_known:
        return said["epoch"] * job.counting.parts
    return None


def steps(job: Job, config: Config, parts: float) -> float | None:
    """Return the optimiser steps of so many parts, if the examples are known."""
    return parts * job.examples / config.global_batch if job.examples else None


def tokens(job: Job, parts: float) -> float | None:
    """Return the tokens of so many parts, if those of an example are known."""
    return parts * job.examples * job.counting.sequence if job.examples and job.counting.sequence else None


def amount(job: Job, config: Config, parts: float) -> float:
    """Return so many parts in the unit of the job."""
    unit = job.counting.unit
    found = steps(job, config, parts) if unit == "steps" else tokens(job, parts) if unit == "tokens" else None
    return parts / job.counting.parts if found is None else found


def whole_units(job: Job, parts: int) -> int:
    """Return the parts that a start trains which is told to train so many: `{epochs}` is a whole number."""
    whole = job.counting.parts if job.counting.unit == "epochs" else 1.0
    return math.ceil(math.ceil(parts / whole) * whole)


def words(job: Job, config: Config, parts: float) -> str:
    """Return so many parts in the unit of the job, as people read it: 1,200 steps, 1 epoch."""
    count, unit = amount(job, config, parts), job.counting.unit
    if unit == "epochs":
        shown = str(int(count)) if count == int(count) else f"{count:.3g}"
        return f"{shown} epoch{'' if count == 1 else 's'}"
    return f"{number(math.ceil(count) if unit == 'steps' else count)} {unit}"


def pace(job: Job, config: Config, part_seconds: float) -> float:
    """Return the seconds of one step, token or epoch, whichever the job counts, from those of a part."""
    return part_seconds / amount(job, config, 1.0)


def each(job: Job) -> str:
    """Return one of what the job counts: epoch, step or token."""
    return job.counting.unit.removesuffix("s")
